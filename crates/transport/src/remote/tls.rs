//! Encryption: whom to believe.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use super::{Remote, RemoteError};

/// The settings for a connection: the authorities that this machine trusts, or those in the file that `SSL_CERT_FILE`
/// names.
pub(super) fn config(remote: &Remote) -> Result<Arc<ClientConfig>, RemoteError> {
    let mut roots = RootCertStore::empty();
    // There are many of them, and without encryption nobody is checked.
    if remote.is_encrypted() {
        let found = rustls_native_certs::load_native_certs();
        let (good, _) = roots.add_parsable_certificates(found.certs);
        if good == 0 {
            let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
            return Err(remote.unreachable(&format!(
                "this machine has no certificates to check it by{why}; install ca-certificates, or name a file in SSL_CERT_FILE"
            )));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| remote.unreachable(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
