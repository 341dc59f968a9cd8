//! Presentation of a page: size, colors, screenshots, accessibility.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::Page;
use crate::page::metrics;

/// Preferred color scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorScheme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// An element as seen by a screen reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// `button`, `heading`, ...
    pub role: String,
    /// The accessible name.
    pub name: String,
}

impl Page {
    /// Sets the size of the viewport in pixels.
    #[track_caller]
    pub fn resize(&self, width: u32, height: u32) {
        self.command("Emulation.setDeviceMetricsOverride", &metrics(width, height));
        self.wait_until(&format!("innerWidth === {width} && innerHeight === {height}"));
    }

    /// Sets the preferred color scheme, and reduced motion if `still`.
    #[track_caller]
    pub fn prefer(&self, scheme: ColorScheme, still: bool) {
        let scheme = match scheme {
            ColorScheme::Light => "light",
            ColorScheme::Dark => "dark",
        };
        let motion = if still { "reduce" } else { "no-preference" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": motion },
        ]);
        self.command("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Writes a screenshot to `NAME.png` in [`screenshots_folder`], and returns its path.
    #[track_caller]
    pub fn screenshot(&self, name: &str) -> PathBuf {
        let taken = self.command("Page.captureScreenshot", &json!({ "format": "png" }));
        let path = screenshots_folder().join(format!("{name}.png"));
        let image =
            base64::engine::general_purpose::STANDARD.decode(taken["data"].as_str().unwrap_or_default());
        let written = std::fs::create_dir_all(path.parent().unwrap_or(&path))
            .and_then(|()| std::fs::write(&path, image.unwrap_or_default()));
        if let Err(error) = written {
            panic!("cannot write {}: {error}", path.display());
        }
        path
    }

    /// Returns the elements of the accessibility tree, in page order.
    #[track_caller]
    #[must_use]
    pub fn accessibility(&self) -> Vec<Named> {
        let tree = self.command("Accessibility.getFullAXTree", &json!({}));
        let nodes = tree["nodes"].as_array().into_iter().flatten().filter(|node| node["ignored"] != true);
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        nodes.map(|node| Named { role: text(&node["role"]), name: text(&node["name"]) }).collect()
    }
}

/// Returns the folder of screenshots: `screenshots` in Cargo's target folder.
#[must_use]
pub fn screenshots_folder() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace.join("target"), |folder| workspace.join(folder))
        .join("screenshots")
}
