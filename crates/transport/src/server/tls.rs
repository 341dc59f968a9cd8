//! Encryption, by certificates from files.

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

/// Why a certificate or its key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or holds something else.
    #[error("cannot read {what} from {}", path.display())]
    File {
        /// What was to be read.
        what: &'static str,
        /// From where.
        path: PathBuf,
        /// Why not.
        source: pem::Error,
    },
    /// There is no certificate in the file.
    #[error("{} has no certificate; it should begin with -----BEGIN CERTIFICATE-----", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// They do not fit together.
    #[error("the certificate and the key cannot be used together")]
    Unusable {
        /// Why.
        source: rustls::Error,
    },
}

impl Tls {
    /// Reads a chain of certificates and the key of the first, both in PEM.
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

    /// Says why clients that trust this certificate itself will refuse it, and how to make one that they take. `None` for one
    /// that they take, and for one that an authority signed.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }
}

/// Checks a self-signed certificate as a client does that trusts it.
fn advice(chain: &[CertificateDer<'static>]) -> Option<String> {
    let [own] = chain else { return None };
    let mut roots = RootCertStore::empty();
    roots.add(own.clone()).ok()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
    // Certificates are checked before names; one for another name is as good.
    let name = ServerName::try_from("localhost").ok()?;
    let error = verifier.verify_server_cert(own, &[], &name, &[], UnixTime::now()).err()?;
    crate::certificate::advice(&error)
}
