use std::time::{Duration, Instant};

use switchboard_transport::{
    ConnectionOptions, Error, Event, Exit, Frame, Grace, LineReader, ProcessLease, Program, Spawned,
    StandardErrorLine,
};
use tokio::io::AsyncReadExt;

use crate::support::{LifeLine, bounded, end, script};

async fn output_of(program: &Program) -> String {
    let Spawned { child, input, mut output } = program.spawn().unwrap();
    drop(input);
    let mut text = String::new();
    bounded(output.read_to_string(&mut text)).await.unwrap();
    assert_eq!(child.wait().await, Some(Exit::Code(0)));
    end(&child).await;
    text
}

#[tokio::test]
async fn arguments_environment_and_working_directory_reach_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let program = Program::new("sh")
        .args(["-c", r#"echo "$1 $GREETING ${HOME-none}"; pwd"#, "sh", "a b"])
        .env("GREETING", "hello")
        .env_remove("HOME")
        .working_directory(&folder);
    assert_eq!(output_of(&program).await, format!("a b hello none\n{}\n", folder.display()));
}

#[tokio::test]
async fn a_relative_program_is_found_in_the_working_directory_and_a_name_in_its_own_search_path() {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink("/bin/sh", bin.join("our-shell")).unwrap();
    let arguments = ["-c", "echo $0"];
    let relative = Program::new("bin/our-shell").args(arguments).working_directory(folder.path());
    assert_eq!(output_of(&relative).await, "bin/our-shell\n");
    let named = Program::new("our-shell").args(arguments).env("PATH", &bin);
    assert_eq!(output_of(&named).await, "our-shell\n");
}

#[tokio::test]
async fn a_missing_program_is_named_with_what_was_tried() {
    let error_of = |program: Program| program.spawn().unwrap_err().to_string();
    let program = Program::new("no-such-agent").env("PATH", "/usr/bin:/nowhere::/bin");
    let expected = "program no-such-agent not found: searched /usr/bin, /nowhere, /bin";
    assert_eq!(error_of(program), expected);
    let expected = "program no-such-agent not found: the search path is empty";
    assert_eq!(error_of(Program::new("no-such-agent").env_remove("PATH")), expected);
    let expected = "program /nowhere/agent not found: tried /nowhere/agent";
    assert_eq!(error_of(Program::new("/nowhere/agent")), expected);

    let folder = tempfile::tempdir().unwrap();
    let (place, file) = (folder.path().display(), folder.path().join("agent"));
    std::fs::write(&file, "").unwrap();
    let program = Program::new("agent").env("PATH", folder.path());
    let expected = format!("program agent cannot be run: {place}/agent is not executable; tried {place}");
    assert_eq!(error_of(program), expected);

    let program = Program::new("sh").working_directory("/nowhere");
    assert_eq!(error_of(program), "cannot start sh: /nowhere is not a folder");
}

#[tokio::test]
async fn a_file_that_the_system_cannot_run_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent");
    std::fs::write(&file, [0x7F, b'E', b'L', b'F', 0, 0]).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = Program::new(&file).spawn().unwrap_err();
    assert!(matches!(error, Error::ProgramNotStarted { .. }), "{error}");
}

#[tokio::test]
async fn a_program_that_exits_when_its_input_closes_is_not_signalled() {
    let grace = Grace { input_closed: Duration::from_secs(30), terminate: Duration::from_secs(30) };
    let program = script("while read x; do :; done; exit 6").grace(grace);
    let (child, _peer) = program.connect(ConnectionOptions::default()).unwrap();
    assert_eq!(bounded(child.shut_down()).await, Some(Exit::Code(6)));
}

#[tokio::test]
async fn a_program_that_stays_when_its_input_closes_is_terminated() {
    let mut life = LifeLine::new();
    let text = r#"trap 'exit 8' TERM; exec 9>"$LIFE"; echo >&9; while :; do sleep 0.01; done"#;
    let (child, _peer) = script(text).env("LIFE", life.path()).connect(ConnectionOptions::default()).unwrap();
    life.begun(1).await;
    assert_eq!(bounded(child.shut_down()).await, Some(Exit::Code(8)));
    end(&child).await;
    life.over().await;
}

/// A process that ignores the end of its input and SIGTERM, and so does its child.
const STUBBORN: &str = r#"trap '' TERM; exec 9>"$LIFE"; (echo >&9; while :; do sleep 1; done) & echo >&9; while :; do sleep 1; done"#;

#[tokio::test]
async fn a_stubborn_program_is_killed_with_its_group() {
    let mut life = LifeLine::new();
    let program = script(STUBBORN).env("LIFE", life.path());
    let (child, _peer) = program.connect(ConnectionOptions::default()).unwrap();
    life.begun(2).await;
    assert_eq!(bounded(child.shut_down()).await, Some(Exit::Signal(9)));
    end(&child).await;
    life.over().await;
}

#[tokio::test]
async fn dropping_everything_ends_the_group() {
    let mut life = LifeLine::new();
    let program = script(STUBBORN).env("LIFE", life.path());
    let (child, peer) = program.connect(ConnectionOptions::default()).unwrap();
    life.begun(2).await;
    drop((child, peer));
    life.over().await;
}

#[test]
fn the_end_of_the_runtime_ends_the_group() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (ours, theirs) = (runtime(), runtime());
    let mut life = ours.block_on(async { LifeLine::new() });
    let program = script(STUBBORN).env("LIFE", life.path()).watchdog(false);
    let kept = theirs.block_on(async { program.connect(ConnectionOptions::default()).unwrap() });
    ours.block_on(life.begun(2));
    drop(theirs);
    ours.block_on(life.over());
    drop(kept);
}

/// Run by the next test in its own process, which is then killed.
#[test]
fn program_of_a_process_that_is_killed() {
    let Ok(life) = std::env::var("TRANSPORT_TEST_LIFE") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let program = script(STUBBORN).env("LIFE", life);
        let (child, _peer) = program.connect(ConnectionOptions::default()).unwrap();
        child.wait().await;
    });
}

#[tokio::test]
async fn a_program_is_ended_when_we_are_killed() {
    let mut life = LifeLine::new();
    let mut ourselves = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::program_of_a_process_that_is_killed"])
        .env("TRANSPORT_TEST_LIFE", life.path())
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    life.begun(2).await;
    bounded(ourselves.kill()).await.unwrap();
    life.over().await;
}

#[tokio::test]
async fn standard_error_is_a_stream_of_lines_and_the_last_ones_are_kept() {
    let long = "x".repeat(10_000);
    let text = r#"read x; printf 'one\r\ntwo\377\n'; printf '%s\nend' "$LONG"; exit 0"#;
    let program = script(&format!("exec >&2; {text}")).env("LONG", &long);
    let (child, peer) = program.connect(ConnectionOptions::default()).unwrap();
    let mut lines = child.standard_error();
    peer.caller.notify("go", switchboard_transport::Json::default()).await.unwrap();
    let mut heard = Vec::new();
    while let Some(line) = bounded(lines.next()).await {
        let StandardErrorLine::Line(line) = line else { panic!("missed lines") };
        heard.push(line.to_string());
    }
    let (first, second) = heard[2..4].split_at(1);
    assert_eq!(first[0].len() + second[0].len(), long.len());
    assert_eq!((&*heard[0], &*heard[1], &*heard[4]), ("one", "two\u{FFFD}", "end"));
    assert_eq!(heard.len(), 5);
    assert_eq!(child.last_lines(100), heard);
    assert_eq!(child.last_lines(1), ["end"]);
    // A late listener gets the same lines.
    let mut lines = child.standard_error();
    for line in heard {
        assert_eq!(bounded(lines.next()).await, Some(StandardErrorLine::Line(line.into())));
    }
    assert_eq!(bounded(lines.next()).await, None);
    end(&child).await;
}

#[tokio::test]
async fn a_late_listener_on_standard_error_learns_how_much_is_missing() {
    let (child, _peer) = script("seq 1 700 >&2; read x").connect(ConnectionOptions::default()).unwrap();
    bounded(async {
        while child.last_lines(1) != ["700"] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let mut lines = child.standard_error();
    assert_eq!(bounded(lines.next()).await, Some(StandardErrorLine::Missed(200)));
    for number in 201..=700 {
        let line = StandardErrorLine::Line(number.to_string().into());
        assert_eq!(bounded(lines.next()).await, Some(line));
    }
    end(&child).await;
}

#[tokio::test]
async fn bare_pipes_carry_lines_without_a_connection() {
    let Spawned { child, input, output } = script("exec cat").spawn().unwrap();
    let outbox = switchboard_transport::Outbox::new(input, switchboard_transport::OutboxOptions::default());
    let mut lines = LineReader::new(output, 1024);
    for number in 0..1000 {
        outbox.send(&format!("{{\"id\":{number}}}")).await.unwrap();
    }
    drop(outbox);
    for number in 0..1000 {
        let Some(Frame::Message(line)) = bounded(lines.next()).await.unwrap() else { panic!("no line") };
        assert_eq!(&*line, format!("{{\"id\":{number}}}"));
    }
    assert_eq!(bounded(lines.next()).await.unwrap(), None);
    assert_eq!(bounded(child.shut_down()).await, Some(Exit::Code(0)));
}

#[tokio::test]
async fn many_children_come_and_go() {
    for _ in 0..20 {
        let (child, mut peer) = script("exit 0").connect(ConnectionOptions::default()).unwrap();
        let closed = bounded(peer.inbox.next()).await;
        assert!(matches!(closed, Some(Event::Closed(_))), "{closed:?}");
        end(&child).await;
    }
}

#[tokio::test]
async fn a_shorter_grace_time_applies_while_a_program_is_ending() {
    let mut life = LifeLine::new();
    let hours = Duration::from_secs(3600);
    let patient = Grace { input_closed: hours, terminate: hours };
    let program = script(STUBBORN).env("LIFE", life.path()).grace(patient);
    let (child, _peer) = program.connect(ConnectionOptions::default()).unwrap();
    life.begun(2).await;
    let (first, second) = bounded(async {
        tokio::join!(child.shut_down(), child.shut_down_within(crate::support::short_grace()))
    })
    .await;
    assert_eq!((first, second), (Some(Exit::Signal(9)), Some(Exit::Signal(9))));
    life.over().await;
}

#[tokio::test]
async fn a_process_whose_lease_is_not_extended_is_killed_and_one_whose_lease_is_stays() {
    let sleeper = Program::new("sh").args(["-c", "trap '' TERM; while :; do sleep 0.1; done"]);
    let start = |lease: &ProcessLease| sleeper.clone().lease(lease.clone()).spawn().unwrap();
    let (extends, extended) = ProcessLease::channel();
    let (grants, granted) = ProcessLease::channel();
    let (_never, unlimited) = ProcessLease::channel();
    let soon = || Some(Instant::now() + Duration::from_millis(1500));
    grants.send_replace(soon());
    extends.send_replace(soon());
    let [kept, killed, free] = [&extended, &granted, &unlimited].map(start);
    extends.send_replace(Some(Instant::now() + Duration::from_secs(600)));
    assert_eq!(bounded(killed.child.wait()).await, Some(Exit::Signal(9)));
    assert_eq!((kept.child.exit(), free.child.exit()), (None, None));
    // An expired lease lets nothing run.
    let late = start(&granted);
    assert_eq!(bounded(late.child.wait()).await, Some(Exit::Signal(9)));
    for spawned in [&kept, &free] {
        spawned.child.kill();
        end(&spawned.child).await;
    }
}

#[test]
fn a_lease_ends_a_process_while_its_starter_stands_still() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (grants, lease) = ProcessLease::channel();
    grants.send_replace(Some(Instant::now() + Duration::from_secs(1)));
    let program = Program::new("sh").args(["-c", "trap '' TERM; while :; do sleep 0.1; done"]).lease(lease);
    let spawned = runtime.block_on(async { program.spawn().unwrap() });
    // From here on only this loop runs: a dead process that was not waited for is a zombie.
    let stat = format!("/proc/{}/stat", spawned.child.process_id());
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(&stat).unwrap();
        let state = text.rsplit_once(") ").unwrap().1.chars().next();
        if state == Some('Z') {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it runs on: {text}");
        std::thread::yield_now();
    }
    runtime.block_on(end(&spawned.child));
}
