use std::fs::File;
use std::io::{IoSlice, Write};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use switchboard_acp::Moment;

use crate::error::{Result, StoreError};
use crate::lock::SessionLock;
use crate::progress::Progress;
use crate::record::{About, Channel, MAX_MESSAGE, Record};
use crate::segment::{FRAME, Folder, Frame, Head, Note, SEGMENT};
use crate::store::StoreInner;
use crate::writer::Command;

/// How long the end of a recording may take. What is not in the store's file by then is in its journal, and the next
/// program moves it.
const CLOSE: Duration = Duration::from_millis(1500);

/// How long it is waited for what others will know about a session.
const SETTLE: Duration = Duration::from_millis(500);

/// A record that is written.
#[derive(Debug, Clone)]
pub struct Receipt {
    sequence: u64,
    progress: Arc<Progress>,
}

impl Receipt {
    /// The number that the record has.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether it is on the disk already, which takes a tenth of a second at most.
    pub fn is_durable(&self) -> bool {
        self.progress.is_durable(self.sequence)
    }

    /// Waits until the record is on the disk: it then survives the end of the power, too.
    pub fn wait(&self) -> Result<u64> {
        if !self.is_durable() {
            self.progress.sync()?;
        }
        Ok(self.sequence)
    }
}

/// Writes one session. No other recorder, in any process, can write it at the same time.
///
/// Records are numbered in the order in which they come. They go into a journal of the session, which costs one call of
/// the system and waits for nobody: not for the disk, not for other processes that use the store. From there they are
/// compressed, folded and made searchable in the background.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<StoreInner>,
    id: Arc<str>,
    next: u64,
    progress: Arc<Progress>,
    lock: Option<SessionLock>,
    folder: Folder,
    head: Head,
    frame: Frame,
    /// The segment that is written, and its size.
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
            head: Head::new(about, began, bytes),
            frame: Frame::default(),
            segment: None,
        }
    }

    pub(crate) fn progress_handle(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// The session's id in the store.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How many records it has, with those that were only put.
    pub fn length(&self) -> u64 {
        self.next + self.frame.count()
    }

    /// Appends a record, with all that were [`put`](Recorder::put) before it. When this returns it survives the end of
    /// the process, however that comes; the receipt tells when it survives a power cut, too.
    ///
    /// After a failure all further records are refused, since they would leave a gap; the session can be
    /// continued with [`Store::resume`](crate::Store::resume) once the reason is gone.
    pub fn append(&mut self, record: Record) -> Result<Receipt> {
        self.put(record)?;
        self.write()?;
        Ok(self.receipt())
    }

    /// Takes a record that need not be safe before [`write`](Recorder::write) is called, so that many can be written at
    /// once. Nobody may get to see it before that.
    // By value like `append`, which it is the first half of.
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

    /// Appends messages of now that came together, with a line's end between two of them. They are written as they
    /// stand there, which costs much less than to append each.
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

    /// Writes everything that was put: it survives the end of the process when this returns.
    pub fn write(&mut self) -> Result<()> {
        self.still_recording()?;
        if self.frame.count() == 0 { Ok(()) } else { self.write_with(&[]) }
    }

    /// Writes the frame, and what stands behind its own bytes.
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
            // The bytes of this frame are counted already, and stand in this segment.
            let mut head = self.head.clone();
            head.bytes -= self.frame.wire();
            let note = Frame::note(&Note::Head(head), self.next);
            (&*file).write_all(&note)?;
            // So that the name survives a power cut, too.
            if let Ok(folder) = File::open(self.folder.path()) {
                self.progress.wrote(&Arc::new(folder), self.next, 0);
            }
            self.segment = Some((file, note.len() as u64));
        }
        let frame = self.frame.finish(self.next, rest);
        let Some((file, size)) = &mut self.segment else { return Ok(()) };
        if let Err(error) = write_both(file, frame, rest) {
            // Half a frame would hide what is written behind it later.
            drop(file.set_len(*size));
            return Err(error);
        }
        *size += (frame.len() + rest.len()) as u64;
        Ok(())
    }

    /// Waits until everything that was appended or put survives a power cut.
    pub fn sync(&mut self) -> Result<()> {
        self.write()?;
        self.progress.sync()
    }

    /// Writes everything, and waits until the list of sessions knows what the messages say about this one; but not for
    /// long, should others keep the store busy.
    pub fn settle(&mut self) -> Result<()> {
        self.write()?;
        let (reply, answer) = sync_channel(1);
        if self.shared.push(Command::Settle { reply }) {
            // What is not known by then is known later.
            drop(answer.recv_timeout(SETTLE));
        }
        Ok(())
    }

    /// Ends the recording, within two seconds however long it is: all records are on the disk afterwards. What could
    /// not be compressed or made searchable by then is done by whoever opens the store next.
    pub fn close(self) -> Result<()> {
        self.close_within(CLOSE)
    }

    /// As [`close`](Recorder::close), with less time for what the next one can do.
    pub fn close_within(mut self, time: Duration) -> Result<()> {
        self.end(Some(Instant::now() + time))
    }

    /// Ends the recording, and waits until all of it is compressed and searchable.
    pub fn complete(mut self) -> Result<()> {
        self.end(None)?;
        self.shared.ask(|reply| Command::CatchUp { reply })
    }

    fn end(&mut self, deadline: Option<Instant>) -> Result<()> {
        let Some(lock) = self.lock.take() else { return Ok(()) };
        let mut written = self.write();
        if let (Ok(()), Some((file, _))) = (&written, &self.segment) {
            // Should this fail, the session counts as cut off, and nothing is missing. Before the disk is waited for: that
            // may take longer than the process has.
            drop((&**file).write_all(&Frame::note(&Note::Closed, self.next)));
            written = self.progress.sync();
        }
        let (reply, answer) = sync_channel(1);
        let close = Command::Close { id: Arc::clone(&self.id), lock, deadline, reply };
        let closed = if !self.shared.push(close) {
            Ok(())
        } else if let Some(deadline) = deadline {
            match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(result) => result,
                // It is in the journal.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(()),
            }
        } else {
            answer.recv().unwrap_or(Ok(()))
        };
        written.and(closed).and(self.shared.replaced().map_or(Ok(()), Err))
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

/// Writes two parts one behind the other, with one call of the system unless it takes less.
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
        // What was appended is written; whoever wants to know whether it was calls `close`.
        drop(self.end(Some(Instant::now() + CLOSE)));
    }
}
