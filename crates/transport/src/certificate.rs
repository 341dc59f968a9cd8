//! What to do about a certificate that clients refuse.

use rustls::CertificateError;

/// Makes a certificate that signs itself and that clients take which trust it.
const COMMAND: &str = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 365 -subj /CN=NAME \
    -addext subjectAltName=DNS:NAME -addext basicConstraints=critical,CA:FALSE";

/// Says what is wrong with a certificate that was made for something else than a server, and how to make a better one. `None`
/// for all other errors.
pub(crate) fn advice(error: &rustls::Error) -> Option<String> {
    let rustls::Error::InvalidCertificate(reason) = error else { return None };
    let what = match reason {
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "it names its server only in its subject, which is not looked at"
        }
        // The library has no variant of its own for this one.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it is a certificate authority (CA:TRUE) and no server's, which `openssl req -x509` makes by default"
        }
        _ => return None,
    };
    Some(format!("the certificate cannot be used for a server: {what}; make one with `{COMMAND}`"))
}

/// Looks for the reason in an error and its causes.
#[cfg(feature = "remote")]
pub(crate) fn advice_in(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(advice) = error.downcast_ref::<rustls::Error>().and_then(advice) {
            return Some(advice);
        }
        // An I/O error does not name the error that it wraps as its cause, but that one's cause.
        let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        cause = match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    None
}
