use std::fs::File;
use std::io::{IoSlice, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use switchboard_acp::Moment;

use crate::error::{Result, StoreError};
use crate::lock::SessionLock;
use crate::progress::Progress;
use crate::record::{About, Channel, MAX_MESSAGE, Record};
use crate::segment::{FRAME, Folder, Frame, Note, SEGMENT, SegmentHead};
use crate::store::StoreInner;
use crate::writer::Command;

/// Time limit for closing a recording. Records that are not in the database by then stay in the journal, and
/// the next process moves them.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1500);

/// Time limit for [`Recorder::settle`].
const SETTLE_TIMEOUT: Duration = Duration::from_millis(500);

/// Confirmation that a record is written to the journal.
#[derive(Debug, Clone)]
pub struct Receipt {
    sequence: u64,
    progress: Arc<Progress>,
}

impl Receipt {
    /// Returns the sequence number of the record.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns true if the record is durable, that is, synced to the disk. Takes at most 100 ms after the
    /// append.
    pub fn is_durable(&self) -> bool {
        self.progress.is_durable(self.sequence)
    }

    /// Waits until the record is durable, so that it survives a power failure. Returns its sequence number.
    pub fn wait(&self) -> Result<u64> {
        if !self.is_durable() {
            self.progress.sync()?;
        }
        Ok(self.sequence)
    }
}

/// Writes one session. Exclusive: no other recorder in any process can write the session at the same time.
///
/// Records are numbered in the order of the calls. Each write goes to the session's journal with one system
/// call and waits neither for the disk nor for other processes that use the store. Records are compressed,
/// folded and indexed in the background.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<StoreInner>,
    id: Arc<str>,
    next: u64,
    progress: Arc<Progress>,
    lock: Option<SessionLock>,
    folder: Folder,
    head: SegmentHead,
    frame: Frame,
    /// The current segment and its size in bytes.
    segment: Option<(Arc<File>, u64)>,
}

impl Recorder {
    pub(crate) fn new(
        shared: Arc<StoreInner>,
        lock: SessionLock,
        id: &str,
        about: &About,
        began: Moment,
        (next, bytes): (u64, u64),
    ) -> Self {
        let progress = shared.progress(next);
        Recorder {
            folder: Folder::beside(shared.path()),
            shared,
            id: id.into(),
            next,
            progress,
            lock: Some(lock),
            head: SegmentHead::new(about, began, bytes),
            frame: Frame::default(),
            segment: None,
        }
    }

    pub(crate) fn progress_handle(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Returns the session's id in the store.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the number of records, including those that were only [`put`](Recorder::put).
    pub fn length(&self) -> u64 {
        self.next + self.frame.count()
    }

    /// Appends a record, together with all that were [`put`](Recorder::put) before it. After it returns, the
    /// record survives a crash of the process. The receipt tells when it is durable, that is, survives a
    /// power failure.
    ///
    /// After a failure all further records are refused, since they would leave a gap. The session can be
    /// continued with [`Store::resume`](crate::Store::resume) once the cause is removed.
    pub fn append(&mut self, record: Record) -> Result<Receipt> {
        self.put(record)?;
        self.write()?;
        Ok(self.receipt())
    }

    /// Buffers a record until [`write`](Recorder::write) is called, so that many can be written at once. The
    /// caller must not deliver it to a peer before that.
    // By value like `append`, of which it is the first half.
    #[allow(clippy::needless_pass_by_value)]
    pub fn put(&mut self, record: Record) -> Result<()> {
        if record.bytes.len() > MAX_MESSAGE {
            return Err(StoreError::TooLarge { length: record.bytes.len(), limit: MAX_MESSAGE });
        }
        self.still_recording()?;
        self.frame.push(&record);
        self.head.bytes += record.bytes.len() as u64;
        if self.frame.len() >= FRAME { self.write() } else { Ok(()) }
    }

    /// Appends messages that arrived together, separated by newlines, with the current time. They are written
    /// as one piece, which is much cheaper than one append per message.
    pub fn append_lines(&mut self, channel: Channel, protocol: u16, lines: &str) -> Result<Receipt> {
        if lines.len() > MAX_MESSAGE {
            return Err(StoreError::TooLarge { length: lines.len(), limit: MAX_MESSAGE });
        }
        self.still_recording()?;
        let before = self.frame.wire();
        self.frame.push_lines((Moment::now(), channel, protocol), lines.as_bytes());
        self.head.bytes += self.frame.wire() - before;
        self.write_with(lines.as_bytes())?;
        Ok(self.receipt())
    }

    fn receipt(&self) -> Receipt {
        Receipt { sequence: self.next.saturating_sub(1), progress: Arc::clone(&self.progress) }
    }

    /// Writes all buffered records. They survive a crash of the process when this returns.
    pub fn write(&mut self) -> Result<()> {
        self.still_recording()?;
        if self.frame.count() == 0 { Ok(()) } else { self.write_with(&[]) }
    }

    /// Writes the frame followed by `rest`, the part of its payload that was not copied.
    fn write_with(&mut self, rest: &[u8]) -> Result<()> {
        let count = self.frame.count();
        if let Err(error) = self.write_frame(rest) {
            let error = self.disk(&error);
            self.shared.note_shortage(&error);
            self.frame.clear();
            self.progress.fail(error.clone());
            return Err(error);
        }
        self.next += count;
        let bytes = self.frame.len() + rest.len();
        self.frame.clear();
        if let Some((file, _)) = &self.segment {
            self.progress.wrote(file, self.next, bytes);
        }
        self.shared.wake();
        Ok(())
    }

    fn write_frame(&mut self, rest: &[u8]) -> std::io::Result<()> {
        if self.segment.as_ref().is_none_or(|(_, size)| *size >= SEGMENT) {
            let file = Arc::new(self.folder.create(&self.id, self.next)?);
            // The bytes of this frame are already counted, but belong to this segment.
            let mut head = self.head.clone();
            head.bytes -= self.frame.wire();
            let note = Frame::note(&Note::Head(head), self.next);
            (&*file).write_all(&note)?;
            // Sync the folder too, so that the file name survives a power failure.
            if let Ok(folder) = File::open(self.folder.path()) {
                self.progress.wrote(&Arc::new(folder), self.next, 0);
            }
            self.segment = Some((file, note.len() as u64));
        }
        let frame = self.frame.finish(self.next, rest);
        let Some((file, size)) = &mut self.segment else { return Ok(()) };
        if let Err(error) = write_both(file, frame, rest) {
            // A partial frame would make later frames unreadable, so truncate the file to the last complete
            // one.
            drop(file.set_len(*size));
            return Err(error);
        }
        *size += (frame.len() + rest.len()) as u64;
        Ok(())
    }

    /// Waits until all appended and buffered records are durable.
    pub fn sync(&mut self) -> Result<()> {
        self.write()?;
        self.progress.sync()
    }

    /// Writes all buffered records and waits until the session list reflects them. Gives up after 500 ms if
    /// other processes keep the store busy.
    pub fn settle(&mut self) -> Result<()> {
        self.write()?;
        let (reply, answer) = sync_channel(1);
        if self.shared.push(Command::Settle { reply }) {
            // After a timeout, the list is updated later.
            drop(answer.recv_timeout(SETTLE_TIMEOUT));
        }
        Ok(())
    }

    /// Closes the recording within two seconds. All records are durable afterwards. The next process that
    /// opens the store compresses and indexes the remaining ones.
    pub fn close(self) -> Result<()> {
        self.close_within(CLOSE_TIMEOUT)
    }

    /// Like [`close`](Recorder::close), with another time limit.
    pub fn close_within(mut self, time: Duration) -> Result<()> {
        self.end(Instant::now() + time)
    }

    /// Closes the recording and waits until all of it is compressed and indexed.
    pub fn complete(self) -> Result<()> {
        Recorder::complete_all([self])
    }

    /// Closes recordings and waits until all of them are compressed and indexed. Of many recordings of one store, this takes
    /// much less time than completing them one after the other, because they are synced to the disk together.
    pub fn complete_all(recorders: impl IntoIterator<Item = Recorder>) -> Result<()> {
        let mut closing = Vec::new();
        for mut recorder in recorders {
            // The journal is not synced: it is removed when the records are durable in the database.
            let written = recorder.write_end();
            let closed = recorder.send_close(None);
            closing.push((recorder, written, closed));
        }
        let mut result = Ok(());
        let mut last = None;
        for (recorder, written, closed) in closing {
            let closed = match closed.map(|answer| answer.recv()) {
                Some(Ok(closed)) => closed,
                // The writer has ended before. The records are in the journal.
                Some(Err(_)) | None => recorder.progress.sync(),
            };
            result = result.and(written).and(closed);
            last = Some(Arc::clone(&recorder.shared));
        }
        let Some(shared) = last else { return result };
        result?;
        shared.replaced().map_or(Ok(()), Err)?;
        shared.ask(|reply| Command::CatchUp { reply })
    }

    fn end(&mut self, deadline: Instant) -> Result<()> {
        if self.lock.is_none() {
            return Ok(());
        }
        let mut written = self.write_end();
        if written.is_ok() && self.segment.is_some() {
            written = self.progress.sync();
        }
        let closed = match self.send_close(Some(deadline)) {
            None => Ok(()),
            Some(answer) => match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(result) => result,
                // The records are durable in the journal.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(()),
            },
        };
        written.and(closed).and(self.shared.replaced().map_or(Ok(()), Err))
    }

    /// Writes the buffered records and the note that the recording was closed.
    fn write_end(&mut self) -> Result<()> {
        self.write()?;
        if let Some((file, _)) = &self.segment {
            // Write the note before the sync, which may take longer than the process has left. If the note is
            // missing, the session counts as interrupted, but no record is lost.
            drop((&**file).write_all(&Frame::note(&Note::Closed, self.next)));
        }
        Ok(())
    }

    /// Asks the writer to close the session. Returns the channel of its reply; `None` if it is closed, or the writer has
    /// ended.
    fn send_close(&mut self, deadline: Option<Instant>) -> Option<Receiver<Result<()>>> {
        let lock = self.lock.take()?;
        let (reply, answer) = sync_channel(1);
        let close = Command::Close { id: Arc::clone(&self.id), lock, deadline, reply };
        self.shared.push(close).then_some(answer)
    }

    fn still_recording(&self) -> Result<()> {
        match self.progress.failure() {
            Some((sequence, error)) => Err(StoreError::RecordingStopped {
                session: self.id.to_string(),
                sequence,
                reason: error.to_string(),
            }),
            None => Ok(()),
        }
    }

    fn disk(&self, error: &std::io::Error) -> StoreError {
        use std::io::ErrorKind;
        let path = self.shared.path().to_owned();
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                StoreError::Full { path }
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { path },
            _ => StoreError::Disk { reason: error.to_string() },
        }
    }
}

/// Writes two parts with one system call, or more after a partial write.
fn write_both(mut file: &File, first: &[u8], second: &[u8]) -> std::io::Result<()> {
    let written = loop {
        match file.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            written => break written?,
        }
    };
    file.write_all(first.get(written..).unwrap_or_default())?;
    file.write_all(second.get(written.saturating_sub(first.len())..).unwrap_or_default())
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Records are written in any case. Callers that need the result call `close`.
        drop(self.end(Instant::now() + CLOSE_TIMEOUT));
    }
}
