//! A recording as lines in a file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use switchboard_store::{Moment, Record, to_first_line, to_line};

use crate::outcome::CommandError;
use crate::standard_error;

/// Maximum bytes to buffer: a file is written before a message is forwarded, but not for each one separately.
const MOST_WAITING: usize = 256 * 1024;

/// A kill can truncate a write only at the end of a page. So no line crosses a page boundary unless it is
/// longer than a page or is written alone: the line before it is padded with spaces.
const PAGE: u64 = 4096;

/// Rest of a page below which the next line, of unknown length, starts on a new one.
const NEARLY_FULL: u64 = 1024;

/// Appends whole lines to a file, with an exclusive lock.
#[derive(Debug)]
pub(super) struct RecordedFile {
    file: File,
    /// Length of the file up to the last whole line.
    length: u64,
    /// Time of the first message.
    began: Option<Moment>,
    /// Whole lines that are not written yet.
    waiting: Vec<u8>,
    /// Set if it is a regular file with pages, and not a pipe.
    has_pages: bool,
}

impl RecordedFile {
    fn new(file: File) -> Self {
        RecordedFile { file, length: 0, began: None, waiting: Vec::new(), has_pages: false }
    }

    /// Opens the file to append. A partial last line, left by a kill or a full disk, is removed.
    pub(super) fn open(path: &Path) -> Result<Self, CommandError> {
        let failed =
            |error: io::Error| CommandError::usage(format!("cannot write {}: {error}", path.display()));
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let taken = format!("another process is recording into {}", path.display());
                return Err(CommandError::usage(taken).hint("name another file, or use the store: --record"));
            }
            // If locks are not supported, write without one.
            Err(TryLockError::Error(_)) => {}
        }
        // A pipe or device, such as /dev/stderr, is only written to.
        if !file.metadata().map_err(failed)?.is_file() {
            return Ok(RecordedFile::new(file));
        }
        let torn = remove_torn_line(&mut file).map_err(failed)?;
        if torn > 0 {
            standard_error::say(format!(
                "switchboard: {} ended inside a line; its {torn} bytes are removed",
                path.display()
            ));
        }
        let length = file.metadata().map_err(failed)?.len();
        let mut recorded = RecordedFile::new(file);
        (recorded.length, recorded.has_pages) = (length, true);
        Ok(recorded)
    }

    /// Appends a record if it is a message. It is in the file after the next [`RecordedFile::commit`].
    pub(super) fn append(&mut self, record: &Record) -> io::Result<()> {
        let line = match self.began {
            Some(began) => to_line(record, began, false),
            // With the start time, so that it is not taken as part of an earlier recording.
            None => to_first_line(record, record.time, false),
        };
        let Some(line) = line else { return Ok(()) };
        self.began.get_or_insert(record.time);
        let (room, needed) = (self.room(), line.len() as u64 + 1);
        if needed > room && needed <= PAGE {
            self.fill_up(room);
        }
        self.waiting.extend_from_slice(line.as_bytes());
        self.waiting.push(b'\n');
        if self.waiting.len() > MOST_WAITING { self.commit() } else { Ok(()) }
    }

    /// Returns the rest of the page in which the buffered lines will end.
    fn room(&self) -> u64 {
        PAGE - (self.length + self.waiting.len() as u64) % PAGE
    }

    /// Pads the last buffered line with spaces.
    fn fill_up(&mut self, room: u64) {
        if self.has_pages && self.waiting.pop_if(|last| *last == b'\n').is_some() {
            self.waiting.extend(std::iter::repeat_n(b' ', usize::try_from(room).unwrap_or_default()));
            self.waiting.push(b'\n');
        }
    }

    /// Writes the buffered lines. On failure the file keeps no part of them.
    pub(super) fn commit(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let room = self.room();
        if room < NEARLY_FULL {
            self.fill_up(room);
        }
        let written = self.file.write_all(&self.waiting);
        match &written {
            Ok(()) => self.length += self.waiting.len() as u64,
            // A pipe or device has no length, and its data cannot be removed.
            Err(_) => drop(self.file.set_len(self.length)),
        }
        self.waiting.clear();
        self.waiting.shrink_to(MOST_WAITING);
        written
    }
}

impl Drop for RecordedFile {
    /// Unlocks explicitly: a child process that is being started has a copy of the file until it runs its own
    /// program, and the copy holds the lock.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Removes a partial last line, unless only its line end is missing. Returns the number of bytes removed.
fn remove_torn_line(file: &mut File) -> io::Result<u64> {
    const STEP: u64 = 64 * 1024;
    let length = file.metadata()?.len();
    let mut tail = Vec::new();
    let mut start = length;
    while start > 0 && !tail.contains(&b'\n') {
        let from = start.saturating_sub(STEP);
        let mut piece = vec![0; usize::try_from(start - from).unwrap_or_default()];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut piece)?;
        piece.extend_from_slice(&tail);
        (tail, start) = (piece, from);
    }
    let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    let torn = &tail[whole..];
    if torn.is_empty() {
        return Ok(0);
    }
    if serde_json::from_slice::<&serde_json::value::RawValue>(torn).is_ok() {
        file.write_all(b"\n")?;
        return Ok(0);
    }
    let removed = torn.len() as u64;
    file.set_len(length - removed)?;
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use switchboard_store::Channel;

    use super::*;

    fn record(text: &str) -> Record {
        Record::new(Channel::ToAgent, text)
    }

    /// Checks that a file with this content continues as `kept` with a message after it.
    fn goes_on(before: &str, kept: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        std::fs::write(&path, before).unwrap();
        let mut file = RecordedFile::open(&path).unwrap();
        file.append(&record(r#"{"id":2}"#)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), kept, "nothing is written before it is wanted");
        file.commit().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let added = text.strip_prefix(kept).unwrap();
        assert!(added.ends_with(",\"dir\":\"client->agent\",\"msg\":{\"id\":2}}\n"), "{added}");
        assert!(added.starts_with("{\"began\":"), "each recording says when it began: {added}");
    }

    #[test]
    fn a_torn_line_is_removed_and_a_whole_one_kept() {
        let whole = "{\"began\":1000,\"t\":0.000,\"dir\":\"client->agent\",\"msg\":{\"id\":1}}\n";
        goes_on("", "");
        goes_on(whole, whole);
        goes_on(whole.trim_end(), whole);
        for cut in 1..whole.len() - 1 {
            goes_on(&format!("{whole}{}", &whole[..cut]), whole);
        }
        goes_on(&whole[..20], "");
        // Longer than one reading step.
        let long = format!("{{\"msg\":\"{}\"}}\n", "x".repeat(300_000));
        goes_on(&format!("{long}{}", &long[..250_000]), &long);
    }

    #[test]
    fn a_file_that_is_written_belongs_to_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        let writer = RecordedFile::open(&path).unwrap();
        let error = RecordedFile::open(&path).unwrap_err().to_string();
        assert!(error.contains("another process is recording into"), "{error}");
        drop(writer);
        assert!(RecordedFile::open(&path).is_ok());
    }

    #[test]
    fn no_line_crosses_the_end_of_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        let mut file = RecordedFile::open(&path).unwrap();
        for number in 0..3_000 {
            file.append(&record(&format!("{{\"id\":{number},\"text\":\"{}\"}}", "x".repeat(number % 700))))
                .unwrap();
            if number % 7 == 0 {
                file.commit().unwrap();
            }
        }
        file.commit().unwrap();
        let text = std::fs::read(&path).unwrap();
        let page = usize::try_from(PAGE).unwrap();
        assert!(text.len() > 100 * page);
        for end in (page..text.len()).step_by(page) {
            assert_eq!(text[end - 1], b'\n', "at {end}");
        }
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line = str::from_utf8(line).unwrap();
            switchboard_acp::RecordedLine::parse(line).unwrap();
        }
    }

    #[test]
    fn times_count_from_the_first_message_of_a_recording() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        for began in [1000, 90_000] {
            let mut file = RecordedFile::open(&path).unwrap();
            for after in [0, 2500] {
                file.append(&Record { time: Moment(began + after), ..record("{}") }).unwrap();
            }
            file.commit().unwrap();
        }
        let message = "\"dir\":\"client->agent\",\"msg\":{}}";
        let of = |began| format!("{{\"began\":{began},\"t\":0.000,{message}\n{{\"t\":2.500,{message}\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), of(1000) + &of(90_000));
    }
}
