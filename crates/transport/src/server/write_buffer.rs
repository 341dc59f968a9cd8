//! A stream that combines small writes. The buffer is released with each flush, because most of thousands of
//! sockets are idle at any time.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum size of the buffer in bytes.
const MAX_BUFFERED: usize = 32 << 10;

pub(super) struct WriteBuffer<IO> {
    stream: IO,
    collected: BytesMut,
}

impl<IO: AsyncWrite + Unpin> WriteBuffer<IO> {
    pub(super) fn new(stream: IO) -> Self {
        WriteBuffer { stream, collected: BytesMut::new() }
    }

    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.collected.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.collected))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.collected.advance(written);
        }
        self.collected = BytesMut::new();
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for WriteBuffer<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for WriteBuffer<IO> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.collected.len() + bytes.len() > MAX_BUFFERED {
            ready!(this.poll_drain(context))?;
        }
        let taken = &bytes[..bytes.len().min(MAX_BUFFERED)];
        this.collected.extend_from_slice(taken);
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(context))?;
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(context))?;
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn the_buffer_is_written_completely_and_its_memory_released() {
        let (ours, mut theirs) = tokio::io::duplex(1000);
        let mut stream = WriteBuffer::new(ours);
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).await.map(|_| all)
        });
        let mut expected = Vec::new();
        for number in 0..2000_usize {
            let part = vec![u8::try_from(number % 251).unwrap(); number % 97];
            stream.write_all(&part).await.unwrap();
            assert!(stream.collected.len() <= MAX_BUFFERED);
            expected.extend(part);
        }
        let long = vec![7; 3 * MAX_BUFFERED];
        stream.write_all(&long).await.unwrap();
        expected.extend(long);
        stream.flush().await.unwrap();
        assert_eq!(stream.collected.capacity(), 0);
        stream.shutdown().await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), expected);
    }
}
