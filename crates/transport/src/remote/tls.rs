//! TLS of the client.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use super::{Remote, RemoteError};

/// Returns the TLS configuration: trusts the authorities of this machine, or those in the file
/// `SSL_CERT_FILE`.
pub(super) fn config(remote: &Remote) -> Result<Arc<ClientConfig>, RemoteError> {
    client_tls(remote.is_encrypted()).map_err(|reason| remote.unreachable(&reason))
}

/// Returns the TLS configuration for a server. Trusts the authorities of this machine, or those in the file
/// `SSL_CERT_FILE`. They are read only if the connection is encrypted, because there are many.
pub fn client_tls(is_encrypted: bool) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    if is_encrypted {
        let found = rustls_native_certs::load_native_certs();
        let (good, _) = roots.add_parsable_certificates(found.certs);
        if good == 0 {
            let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
            return Err(format!(
                "this machine has no certificates to check it by{why}; install ca-certificates, or name a file in SSL_CERT_FILE"
            ));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
