//! Checks for images that browsers may decode.
//!
//! The headers are parsed here and not by `imagesize`, because the limit on pixels depends on it: a marker without a
//! length, which browsers skip, hides the true header of a JPEG from that crate.

use switchboard_acp::Base64;

/// Maximum size of an image in bytes; larger ones are attachments.
const LARGEST_FILE: usize = 8 << 20;
/// Maximum number of pixels. A small file can contain an image that needs gigabytes once it is decoded.
const MOST_PIXELS: u64 = 50_000_000;

/// An image that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) mime_type: &'static str,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// Returns the image, or the reason why it is not shown. The type is detected from the bytes. SVG is never shown,
/// because it can contain anything.
pub(super) fn judge(mime_type: &str, data: &Base64<'_>) -> Result<Picture, &'static str> {
    if !matches!(mime_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp") {
        return Err("not a kind of picture that is shown here");
    }
    if data.len() / 4 * 3 > LARGEST_FILE {
        return Err("too large to show");
    }
    let picture = read(&data.to_bytes()).ok_or("not a picture of a known kind")?;
    if picture.mime_type != mime_type {
        return Err("not the kind of picture that it is said to be");
    }
    if u64::from(picture.width) * u64::from(picture.height) > MOST_PIXELS {
        return Err("too many pixels to show");
    }
    Ok(picture)
}

fn read(bytes: &[u8]) -> Option<Picture> {
    if bytes.starts_with(b"\x89PNG\r\n\x1A\n") && bytes.get(12..16) == Some(b"IHDR") {
        let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        return Some(Picture { mime_type: "image/png", width: number(16)?, height: number(20)? });
    }
    if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        let number = |at: usize| Some(u32::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
        return Some(Picture { mime_type: "image/gif", width: number(6)?, height: number(8)? });
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        let (width, height) = webp_size(bytes)?;
        return Some(Picture { mime_type: "image/webp", width, height });
    }
    if bytes.starts_with(b"\xFF\xD8\xFF") {
        let (width, height) = jpeg_size(bytes)?;
        return Some(Picture { mime_type: "image/jpeg", width, height });
    }
    None
}

fn webp_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let byte = |at: usize| bytes.get(at).copied().map(u32::from);
    match bytes.get(12..16)? {
        b"VP8X" => {
            let number = |at: usize| Some((byte(at)? | byte(at + 1)? << 8 | byte(at + 2)? << 16) + 1);
            Some((number(24)?, number(27)?))
        }
        b"VP8L" => {
            let bits = byte(21)? | byte(22)? << 8 | byte(23)? << 16 | byte(24)? << 24;
            Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1))
        }
        b"VP8 " => {
            let number = |at: usize| Some((byte(at)? | byte(at + 1)? << 8) & 0x3FFF);
            Some((number(26)?, number(28)?))
        }
        _ => None,
    }
}

/// Follows the segments to the start of the frame, and returns its size.
fn jpeg_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xFF {
            return None;
        }
        let marker = *bytes.get(at + 1)?;
        match marker {
            0xFF => at += 1,
            0xC0..=0xCF if !matches!(marker, 0xC4 | 0xC8 | 0xCC) => {
                return Some((number(at + 7)?.into(), number(at + 5)?.into()));
            }
            0x01 | 0xD0..=0xD8 => at += 2,
            0xD9 | 0xDA => return None,
            _ => at += 2 + usize::from(number(at + 2)?.max(2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\0\0\x02\0\0\0\x03";

    #[track_caller]
    fn check(mime_type: &str, bytes: &[u8], expected: Result<(u32, u32), &str>) {
        let judged = judge(mime_type, &Base64::from_bytes(bytes));
        assert_eq!(judged.map(|picture| (picture.width, picture.height)), expected);
    }

    #[test]
    fn sizes_are_read_from_all_kinds() {
        check("image/png", PNG, Ok((2, 3)));
        check("image/gif", b"GIF89a\x02\0\x03\0", Ok((2, 3)));
        check("image/webp", b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x01\0\0\x02\0\0", Ok((2, 3)));
        check("image/webp", b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2F\x01\x80\0\0", Ok((2, 3)));
        check("image/webp", b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9D\x01\x2A\x02\0\x03\0", Ok((2, 3)));
        check("image/jpeg", b"\xFF\xD8\xFF\xE0\0\x04ab\xFF\xC2\0\x0B\x08\0\x03\0\x02", Ok((2, 3)));
    }

    #[test]
    fn dangerous_or_mislabelled_images_are_not_shown() {
        check("image/svg+xml", b"<svg onload=x>", Err("not a kind of picture that is shown here"));
        check("image/png", b"<svg onload=x>", Err("not a picture of a known kind"));
        check("image/gif", PNG, Err("not the kind of picture that it is said to be"));
        let bomb = b"\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\0\xFF\xFF\0\0\xFF\xFF";
        check("image/png", bomb, Err("too many pixels to show"));
        let behind_a_marker = b"\xFF\xD8\xFF\x01\xFF\xC0\0\x11\x08\xFF\xFF\xFF\xFF";
        check("image/jpeg", behind_a_marker, Err("too many pixels to show"));
        check("image/png", &vec![0; LARGEST_FILE + 3], Err("too large to show"));
        check("image/jpeg", b"\xFF\xD8\xFF\xFF\xFF\xFF", Err("not a picture of a known kind"));
        for length in 0..PNG.len() {
            check("image/png", &PNG[..length], Err("not a picture of a known kind"));
        }
    }
}
