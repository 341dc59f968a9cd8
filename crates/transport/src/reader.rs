//! Frames out of a stream of bytes.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{Frame, LineDecoder};

/// How much is asked for in one read: as much as a pipe can hold that nobody has enlarged.
const READ: usize = 64 * 1024;

/// Below this much free space the buffer is renewed before a read.
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
    /// Reads from `reader` messages of at most `limit` bytes.
    pub fn new(reader: R, limit: usize) -> Self {
        LineReader { reader, decoder: LineDecoder::new(limit), buffer: BytesMut::new(), ended: false }
    }

    /// The next frame; `None` at the end of the stream. Nothing is lost when the future is dropped.
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

    /// The next frame, where one has been read already.
    pub fn ready(&mut self) -> Option<Frame> {
        if self.ended { self.decoder.finish(&mut self.buffer) } else { self.decoder.decode(&mut self.buffer) }
    }
    /// Takes messages that have been read already, as long as `passes` says yes to each and they have room in `room`
    /// bytes, and gives them to `take` as one text: see [`LineDecoder::decode_run`].
    pub fn ready_run<T>(
        &mut self,
        room: usize,
        passes: impl FnMut(&[u8]) -> bool,
        take: impl FnOnce(&str) -> T,
    ) -> Option<T> {
        self.decoder.decode_run(&mut self.buffer, room, passes, take)
    }
}
