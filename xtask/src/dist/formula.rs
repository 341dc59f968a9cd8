//! Formula for a Homebrew tap.

use std::fmt::Write;

use super::{DESCRIPTION, HOMEPAGE, archive_url};

/// Returns the formula for the existing archives, given by target and SHA-256 checksum.
pub(super) fn text(version: &str, archives: &[(String, String)]) -> String {
    let mut text = format!(
        "class SwitchboardAcp < Formula\n  desc \"{}\"\n  homepage \"{HOMEPAGE}\"\n  version \"{version}\"\n  \
         license \"Apache-2.0\"\n",
        // Longer ones are refused.
        DESCRIPTION.chars().take(80).collect::<String>(),
    );
    for (system, block) in [("apple-darwin", "on_macos"), ("unknown-linux-gnu", "on_linux")] {
        let mut inner = String::new();
        for (machine, name) in [("aarch64", "on_arm"), ("x86_64", "on_intel")] {
            let target = format!("{machine}-{system}");
            let Some((_, checksum)) = archives.iter().find(|(found, _)| *found == target) else { continue };
            let url = archive_url(version, &target);
            let _ =
                write!(inner, "    {name} do\n      url \"{url}\"\n      sha256 \"{checksum}\"\n    end\n");
        }
        if !inner.is_empty() {
            let _ = write!(text, "\n  {block} do\n{inner}  end\n");
        }
    }
    text += r##"
  def install
    bin.install "switchboard"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/switchboard.bash" => "switchboard"
    zsh_completion.install "completions/_switchboard"
    fish_completion.install "completions/switchboard.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/switchboard --version")
  end
end
"##;
    text
}
