//! Advice about certificates that clients reject.

use rustls::CertificateError;

/// Command that creates a self-signed certificate which clients accept if they trust it.
const COMMAND: &str = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 365 -subj /CN=NAME \
    -addext subjectAltName=DNS:NAME -addext basicConstraints=critical,CA:FALSE";

/// Explains an error of a certificate that was not made for a server, and how to create a valid one. `None`
/// for all other errors.
pub(crate) fn advice(error: &rustls::Error) -> Option<String> {
    let rustls::Error::InvalidCertificate(reason) = error else { return None };
    let what = match reason {
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "it names its server only in its subject, which clients ignore"
        }
        // The library has no variant for this error.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it is a certificate authority (CA:TRUE) and no server's, which `openssl req -x509` makes by default"
        }
        _ => return None,
    };
    Some(format!("the certificate cannot be used for a server: {what}; make one with `{COMMAND}`"))
}

/// Searches an error and its causes for a certificate error.
#[cfg(feature = "remote")]
pub(crate) fn advice_in(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(advice) = error.downcast_ref::<rustls::Error>().and_then(advice) {
            return Some(advice);
        }
        // An I/O error's `source` skips the error that it wraps, so check that one explicitly.
        let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        cause = match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    None
}
