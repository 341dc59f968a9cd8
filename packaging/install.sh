#!/bin/sh
# Installs the `switchboard` program from a release: downloads the archive for this machine, verifies its SHA-256 checksum and
# puts the program into ~/.local/bin. Needs no root, changes no shell files.
#
#   curl -fsSL https://github.com/switchboard-acp/switchboard/releases/latest/download/install.sh | sh
#   sh install.sh [--dry-run | --uninstall]
#
# SWITCHBOARD_VERSION      the version, as in 0.1.0; the newest one unless it is set
# SWITCHBOARD_INSTALL_DIR  the folder for the program; ~/.local/bin unless it is set
# SWITCHBOARD_RELEASES     the address of the releases, for mirrors
#
# Everything is in functions, and the last line calls them: a script that was cut off in the download does nothing.

set -eu

say() {
    printf '%s\n' "switchboard install: $*" >&2
}

fail() {
    say "$@"
    say "nothing was changed"
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# The target triple of this machine.
target() {
    system=$(uname -s)
    machine=$(uname -m)
    case $machine in
        x86_64 | amd64) machine=x86_64 ;;
        aarch64 | arm64) machine=aarch64 ;;
        *) fail "there is no release for the processor $machine; build from source instead" ;;
    esac
    case $system in
        Linux)
            # Without glibc, `ldd` says so.
            if { ldd --version 2>&1 || true; } | grep -qi musl; then
                echo "$machine-unknown-linux-musl"
            else
                echo "$machine-unknown-linux-gnu"
            fi
            ;;
        Darwin) echo "$machine-apple-darwin" ;;
        *) fail "there is no release for $system; build from source instead" ;;
    esac
}

# Downloads $1 to the file $2. Both programs heed http_proxy, https_proxy and no_proxy.
download() {
    if has curl; then
        curl --fail --silent --show-error --location --retry 2 --output "$2" "$1"
    elif has wget; then
        wget -q -O "$2" "$1"
    else
        fail "neither curl nor wget is installed"
    fi
}

sha256() {
    if has sha256sum; then
        sha256sum "$1"
    elif has shasum; then
        shasum -a 256 "$1"
    else
        openssl dgst -sha256 -r "$1"
    fi | cut -d ' ' -f 1
}

clean_up() {
    [ -z "${new:-}" ] || rm -rf "$new"
}

main() {
    action=install
    case ${1:-} in
        '') ;;
        --dry-run) action=show ;;
        --uninstall) action=remove ;;
        *) fail "unknown option $1; there are --dry-run and --uninstall" ;;
    esac
    folder=${SWITCHBOARD_INSTALL_DIR:-}
    if [ -z "$folder" ]; then
        [ -n "${HOME:-}" ] || fail "HOME is not set; set SWITCHBOARD_INSTALL_DIR"
        folder=$HOME/.local/bin
    fi
    case $folder in
        /*) ;;
        *) folder=$PWD/$folder ;;
    esac
    program=$folder/switchboard

    if [ "$action" = remove ]; then
        [ -e "$program" ] || fail "$program does not exist"
        rm -f "$program" || fail "cannot remove $program"
        say "removed $program; recorded sessions and settings stay"
        return
    fi

    target=$(target)
    releases=${SWITCHBOARD_RELEASES:-https://github.com/switchboard-acp/switchboard/releases}
    if [ -n "${SWITCHBOARD_VERSION:-}" ]; then
        release=$releases/download/v${SWITCHBOARD_VERSION#v}
    else
        release=$releases/latest/download
    fi

    if [ -d "$program" ]; then
        fail "$program is a folder"
    fi
    old=
    if [ -x "$program" ]; then
        old=$("$program" --version 2>/dev/null) || old="another program"
    fi
    if [ "$action" = show ]; then
        say "would download switchboard-VERSION-$target.tar.gz from $release, verify it, and install $program"
        [ -z "$old" ] || say "would replace $program ($old)"
        return
    fi
    case $old in
        '' | 'switchboard '*) ;;
        *) fail "$program is not Switchboard ($old); move it away, or set SWITCHBOARD_INSTALL_DIR" ;;
    esac

    has sha256sum || has shasum || has openssl ||
        fail "none of sha256sum, shasum and openssl is installed, so that the download cannot be verified"
    # Beside the program, so that the last step is a rename in one file system: the old program or the new one, never half of it.
    mkdir -p "$folder" 2>/dev/null || fail "cannot make the folder $folder; set SWITCHBOARD_INSTALL_DIR to one that you may write"
    new=$(mktemp -d "$folder/.switchboard-install.XXXXXX" 2>/dev/null) ||
        fail "cannot write to $folder; set SWITCHBOARD_INSTALL_DIR to a folder that you may write"
    trap clean_up EXIT
    trap 'say "interrupted; nothing was changed"; exit 130' INT
    trap 'say "interrupted; nothing was changed"; exit 143' TERM HUP

    download "$release/SHA256SUMS" "$new/SHA256SUMS" || fail "cannot download $release/SHA256SUMS"
    line=$(grep -E "^[0-9a-f]{64}  switchboard-[0-9][^ /]*-$target\\.tar\\.gz\$" "$new/SHA256SUMS") ||
        fail "the release at $release has no archive for $target"
    [ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || fail "$release/SHA256SUMS has several archives for $target"
    expected=${line%%  *}
    archive=${line#*  }
    download "$release/$archive" "$new/$archive" || fail "cannot download $release/$archive"
    actual=$(sha256 "$new/$archive")
    [ "$actual" = "$expected" ] ||
        fail "$archive is damaged: its SHA-256 is $actual, and should be $expected"
    name=${archive%.tar.gz}
    tar -xzf "$new/$archive" -C "$new" "$name/switchboard" || fail "cannot unpack $archive in $folder"
    version=$("$new/$name/switchboard" --version) || fail "the program of $archive does not run on this machine"
    chmod 755 "$new/$name/switchboard"
    mv -f "$new/$name/switchboard" "$program" || fail "cannot replace $program"

    [ -z "$old" ] || say "replaced $old"
    say "installed $version as $program"
    case :$PATH: in
        *":$folder:"*) found=$(command -v switchboard || true)
            [ "$found" = "$program" ] || say "but the shell finds $found first" ;;
        *) say "to find it, put this line into the file of your shell: export PATH=\"$folder:\$PATH\"" ;;
    esac
}

main "$@"
