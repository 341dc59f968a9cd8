//! Reads frames from a byte stream.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{Frame, LineDecoder};

/// Number of bytes requested per read: the default capacity of a pipe.
const READ: usize = 64 * 1024;

/// Free space in bytes below which the buffer is replaced before a read.
const LEAST_ROOM: usize = 16 * 1024;

/// Reads frames from a stream, many with one system call.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use switchboard_transport::{DEFAULT_MESSAGE_LIMIT, Frame, LineReader};
///
/// let mut lines = LineReader::new(&b"{\"id\":1}\n{\"id\":2}\n"[..], DEFAULT_MESSAGE_LIMIT);
/// while let Some(frame) = lines.next().await? {
///     assert!(matches!(frame, Frame::Message(_)));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    decoder: LineDecoder,
    buffer: BytesMut,
    ended: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader for messages of at most `limit` bytes.
    pub fn new(reader: R, limit: usize) -> Self {
        LineReader { reader, decoder: LineDecoder::new(limit), buffer: BytesMut::new(), ended: false }
    }

    /// Returns the next frame, or `None` at the end of the stream. Cancel safe.
    pub async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.ready() {
                return Ok(Some(frame));
            }
            if self.ended {
                return Ok(None);
            }
            if self.buffer.capacity() - self.buffer.len() < LEAST_ROOM {
                self.buffer.reserve(READ);
            }
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
    }

    /// Returns the next frame if it has already been read.
    pub fn ready(&mut self) -> Option<Frame> {
        if self.ended { self.decoder.finish(&mut self.buffer) } else { self.decoder.decode(&mut self.buffer) }
    }
    /// Takes messages that have already been read, while `passes` returns true and they fit into `room`
    /// bytes, and passes them to `take` as one text: see [`LineDecoder::decode_run`].
    pub fn ready_run<T>(
        &mut self,
        room: usize,
        passes: impl FnMut(&[u8]) -> bool,
        take: impl FnOnce(&str) -> T,
    ) -> Option<T> {
        self.decoder.decode_run(&mut self.buffer, room, passes, take)
    }
}
