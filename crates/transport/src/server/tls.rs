//! TLS with certificates from files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// A certificate and its key.
#[derive(Clone)]
pub struct Tls {
    pub(super) acceptor: TlsAcceptor,
    advice: Option<String>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tls")
    }
}

/// Error of a certificate or its key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file cannot be read, or has other content.
    #[error("cannot read {what} from {}", path.display())]
    File {
        /// Content expected in the file.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        source: pem::Error,
    },
    /// The file contains no certificate.
    #[error("{} has no certificate; it should begin with -----BEGIN CERTIFICATE-----", path.display())]
    NoCertificate {
        /// Path of the file.
        path: PathBuf,
    },
    /// The certificate and the key do not match.
    #[error("the certificate and the key cannot be used together")]
    Unusable {
        /// Reason.
        source: rustls::Error,
    },
}

impl Tls {
    /// Reads a certificate chain and the key of its first certificate, both in PEM format.
    pub fn from_files(certificates: &Path, key: &Path) -> Result<Self, TlsError> {
        let file = |what, path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::File { what, path, source }
        };
        let chain = CertificateDer::pem_file_iter(certificates)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(file("certificates", certificates))?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate { path: certificates.to_owned() });
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(file("a private key", key))?;
        let advice = advice(&chain);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|source| TlsError::Unusable { source })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), advice })
    }

    /// Explains why clients that trust this certificate will reject it, and how to create a valid one. `None`
    /// for a valid certificate or one signed by an authority.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }
}

/// Checks a self-signed certificate like a client that trusts it.
fn advice(chain: &[CertificateDer<'static>]) -> Option<String> {
    let [own] = chain else { return None };
    let mut roots = RootCertStore::empty();
    roots.add(own.clone()).ok()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
    // Certificates are checked before names, so any name will do.
    let name = ServerName::try_from("localhost").ok()?;
    let error = verifier.verify_server_cert(own, &[], &name, &[], UnixTime::now()).err()?;
    crate::certificate::advice(&error)
}
