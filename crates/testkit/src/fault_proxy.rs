//! An unreliable network on loopback: connections that break, stall, arrive in halves or twice.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The kinds of faults, in the order of [`FaultProxy::counts`].
pub const FAULTS: [&str; 5] = ["cut", "half-open", "delayed", "halved", "duplicated"];

/// Time that a half-open connection stays open, and maximum delay.
const STALL: Duration = Duration::from_millis(100);

/// Bytes of a client kept for a duplicate connection.
const KEPT: usize = 256 * 1024;

/// Maximum bytes on a connection before a fault.
const LONGEST: u64 = 6000;

/// A proxy between a client and a server that injects a given number of network faults, one connection after
/// the other. The kind and position of each fault depend only on a seed and the number of the connection.
///
/// - cut: both sides are closed;
/// - half-open: data of one side is dropped for a while, then both are closed;
/// - delayed: data stalls for a moment;
/// - halved: one side gets a part of the data, then both are closed;
/// - duplicated: all data of the client so far is sent again on a second connection, which is then closed.
///
/// Stops when it is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    seed: u64,
    left: AtomicUsize,
    counts: [AtomicUsize; FAULTS.len()],
    is_over: AtomicBool,
}

impl FaultProxy {
    /// Starts to listen for a server.
    pub fn start(server: SocketAddr, seed: u64, faults: usize) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            seed,
            left: AtomicUsize::new(faults),
            counts: Default::default(),
            is_over: AtomicBool::new(false),
        });
        let known = Arc::clone(&shared);
        let listening = std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                if known.is_over.load(Ordering::Acquire) {
                    return;
                }
                if let Ok(client) = client {
                    carry(&known, client, number as u64);
                }
            }
        });
        Ok(FaultProxy { address, shared, listening: Some(listening) })
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of faults of each kind.
    pub fn counts(&self) -> [usize; FAULTS.len()] {
        std::array::from_fn(|kind| self.shared.counts[kind].load(Ordering::Acquire))
    }

    /// Returns the number of faults left.
    pub fn left(&self) -> usize {
        self.shared.left.load(Ordering::Acquire)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        // One more connection unblocks the listener, which then ends.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

impl Shared {
    /// Uses one of the remaining faults.
    fn takes(&self, kind: usize) -> bool {
        let taken = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        if taken.is_ok() {
            self.counts[kind].fetch_add(1, Ordering::AcqRel);
        }
        taken.is_ok()
    }
}

/// Random numbers from a seed: SplitMix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        number ^ (number >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// One direction of a connection.
struct ProxyDirection {
    from: TcpStream,
    to: TcpStream,
    chance: Chance,
    /// Data of the client so far, in its direction.
    said: Option<Vec<u8>>,
}

/// Forwards a connection in both directions, on separate threads.
fn carry(shared: &Arc<Shared>, client: TcpStream, number: u64) {
    // The client must see that the server is unreachable.
    let Ok(server) = TcpStream::connect(shared.server) else { return };
    let (Ok(client_too), Ok(server_too)) = (client.try_clone(), server.try_clone()) else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let chance = |way: u64| Chance(shared.seed ^ (number * 2 + way).wrapping_mul(0xA076_1D64_78BD_642F));
    let there = ProxyDirection { from: client, to: server, chance: chance(0), said: Some(Vec::new()) };
    let here = ProxyDirection { from: server_too, to: client_too, chance: chance(1), said: None };
    for way in [there, here] {
        let shared = Arc::clone(shared);
        std::thread::spawn(move || way.carry(&shared));
    }
}

impl ProxyDirection {
    fn carry(mut self, shared: &Shared) {
        let mut buffer = [0; 4096];
        let mut left = 1 + self.chance.below(LONGEST);
        loop {
            let count = match self.from.read(&mut buffer) {
                Ok(0) | Err(_) => {
                    let _ = self.to.shutdown(Shutdown::Write);
                    return;
                }
                Ok(count) => count,
            };
            let chunk = &buffer[..count];
            if let Some(said) = self.said.as_mut().filter(|said| said.len() + count <= KEPT) {
                said.extend_from_slice(chunk);
            }
            if left > count as u64 {
                left -= count as u64;
            } else {
                left = 1 + self.chance.below(LONGEST);
                let kind = self.chance.below(FAULTS.len() as u64) as usize;
                if shared.takes(kind) && !self.fault(FAULTS[kind], chunk, shared) {
                    return self.cut();
                }
            }
            if self.to.write_all(chunk).is_err() {
                return self.cut();
            }
        }
    }

    /// Injects a fault at this chunk. Returns whether the connection continues.
    fn fault(&mut self, kind: &str, chunk: &[u8], shared: &Shared) -> bool {
        match kind {
            "half-open" => {
                self.swallow();
                false
            }
            "halved" => {
                let _ = self.to.write_all(&chunk[..chunk.len() / 2]);
                false
            }
            "delayed" => {
                std::thread::park_timeout(STALL.mul_f64(self.chance.below(100) as f64 / 100.0));
                true
            }
            "duplicated" => {
                if let Some(said) = &self.said {
                    say_again(shared.server, said);
                }
                true
            }
            _ => false,
        }
    }

    /// Drops data until none arrives for a while.
    fn swallow(&mut self) {
        let mut buffer = [0; 4096];
        let _ = self.from.set_read_timeout(Some(STALL));
        // A sender that never stops must not block the other side.
        for _ in 0..100 {
            match self.from.read(&mut buffer) {
                Ok(0) => return,
                Err(error) if error.kind() != ErrorKind::Interrupted => return,
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn cut(&self) {
        let _ = self.from.shutdown(Shutdown::Both);
        let _ = self.to.shutdown(Shutdown::Both);
    }
}

/// Repeats data on a second connection and reads the result for a while.
fn say_again(server: SocketAddr, said: &[u8]) {
    let Ok(mut second) = TcpStream::connect(server) else { return };
    let _ = (second.write_all(said), second.set_read_timeout(Some(STALL)));
    let mut buffer = [0; 4096];
    for _ in 0..100 {
        if !matches!(second.read(&mut buffer), Ok(1..)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An echo server that counts its connections.
    fn echo() -> (SocketAddr, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                count.fetch_add(1, Ordering::AcqRel);
                let mut socket = socket.unwrap();
                let mut back = socket.try_clone().unwrap();
                std::thread::spawn(move || std::io::copy(&mut socket, &mut back));
            }
        });
        (address, connections)
    }

    /// Sends until the connection breaks or everything came back.
    fn talk(address: SocketAddr) -> Option<Vec<u8>> {
        let mut socket = TcpStream::connect(address).unwrap();
        let sent: Vec<u8> = (0..20_000_u32).map(|number| (number % 251) as u8).collect();
        let mut back = vec![0; sent.len()];
        for (part, place) in sent.chunks(500).zip(back.chunks_mut(500)) {
            socket.write_all(part).ok()?;
            socket.read_exact(place).ok()?;
        }
        assert_eq!(back, sent, "what comes is what was sent");
        Some(back)
    }

    #[test]
    fn every_kind_of_fault_happens_and_then_no_more() {
        let (server, connections) = echo();
        let proxy = FaultProxy::start(server, 1, 60).unwrap();
        let mut tried = 0;
        while proxy.left() > 0 {
            let _ = talk(proxy.address());
            tried += 1;
            assert!(tried < 1000, "{:?} after {tried} connections", proxy.counts());
        }
        assert_eq!(proxy.counts().iter().sum::<usize>(), 60);
        assert!(proxy.counts().iter().all(|count| *count > 0), "{FAULTS:?}: {:?}", proxy.counts());
        assert!(connections.load(Ordering::Acquire) > tried, "some were duplicated");
        assert!(talk(proxy.address()).is_some(), "the network is whole");
    }
}
