//! A network that can be interrupted.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Poll interval for the state of a gate.
const LOOK: Duration = Duration::from_millis(10);

/// A proxy between clients and a server. While it is closed, no data passes in either direction and
/// connections stay open, as with a cut network. Data in transit passes when it is open again.
///
/// Stops when it is dropped.
#[derive(Debug)]
pub struct Gate {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    is_open: AtomicBool,
    is_over: AtomicBool,
}

impl Gate {
    /// Starts to listen for a server, open.
    pub fn start(server: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared =
            Arc::new(Shared { server, is_open: AtomicBool::new(true), is_over: AtomicBool::new(false) });
        let known = Arc::clone(&shared);
        let listening = std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if known.is_over.load(Ordering::Acquire) {
                    return;
                }
                // The client must see that the server is unreachable.
                if let Ok(server) = TcpStream::connect(known.server) {
                    carry(&known, &client, &server);
                    carry(&known, &server, &client);
                }
            }
        });
        Ok(Gate { address, shared, listening: Some(listening) })
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens or closes it.
    pub fn open(&self, is_open: bool) {
        self.shared.is_open.store(is_open, Ordering::Release);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        // One more connection unblocks the listener, which then ends.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

/// Forwards data of one side to the other until one of them closes.
fn carry(shared: &Arc<Shared>, from: &TcpStream, to: &TcpStream) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        let _ = from.set_read_timeout(Some(LOOK));
        while !shared.is_over.load(Ordering::Acquire) {
            let count = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(_) => break,
            };
            while !shared.is_open.load(Ordering::Acquire) && !shared.is_over.load(Ordering::Acquire) {
                std::thread::park_timeout(LOOK);
            }
            if buffer.get(..count).is_none_or(|said| to.write_all(said).is_err()) {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_sent_through_a_closed_gate_arrive_when_it_opens() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let gate = Gate::start(server.local_addr().unwrap()).unwrap();
        let mut client = TcpStream::connect(gate.address()).unwrap();
        let (mut accepted, _) = server.accept().unwrap();
        let mut said = [0];
        client.write_all(b"1").unwrap();
        accepted.read_exact(&mut said).unwrap();
        assert_eq!(said, *b"1");
        gate.open(false);
        accepted.write_all(b"2").unwrap();
        client.set_read_timeout(Some(LOOK * 10)).unwrap();
        assert!(client.read_exact(&mut said).is_err(), "it is closed");
        client.set_read_timeout(None).unwrap();
        gate.open(true);
        client.read_exact(&mut said).unwrap();
        assert_eq!(said, *b"2");
        drop(gate);
        assert_eq!(client.read(&mut said).unwrap_or(0), 0, "both sides end with it");
    }
}
