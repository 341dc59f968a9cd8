//! The system calls that a sandbox refuses.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Bit of the numbers of the x32 system calls, which a 64-bit process can use too.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// System calls that are refused whatever their arguments are.
const REFUSED: &[i64] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
];

/// `fchmodat2` has the same number everywhere.
const FCHMODAT2: i64 = 452;

const SET_USER_ID: u64 = 0o4000;
const SET_GROUP_ID: u64 = 0o2000;
const RAW_SOCKET: u64 = libc::SOCK_RAW as u64;
/// The part of a socket's type without its flags.
const SOCKET_TYPE: u64 = 0xf;

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, String> {
    // Each of these arguments has 32 bits, and the kernel ignores the rest.
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        .map_err(|error| error.to_string())
}

fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, String> {
    let conditions: Result<Vec<_>, String> = conditions
        .iter()
        .map(|(argument, operator, value)| condition(*argument, operator.clone(), *value))
        .collect();
    SeccompRule::new(conditions?).map_err(|error| error.to_string())
}

fn is(value: u64) -> (SeccompCmpOp, u64) {
    (SeccompCmpOp::Eq, value)
}

/// Returns the rules for calls that fail with EPERM.
fn refused() -> Result<Rules, String> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let domains =
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(|domain| domain as u64);
    let [unix, inet, inet6, netlink] = domains;
    rules.insert(
        libc::SYS_socket,
        vec![
            rule(&[(0, Ne, unix), (0, Ne, inet), (0, Ne, inet6), (0, Ne, netlink)])?,
            rule(&[(0, Eq, netlink), (2, Ne, libc::NETLINK_ROUTE as u64)])?,
            rule(&[(0, Eq, inet), (1, MaskedEq(SOCKET_TYPE), RAW_SOCKET)])?,
            rule(&[(0, Eq, inet6), (1, MaskedEq(SOCKET_TYPE), RAW_SOCKET)])?,
        ],
    );
    rules.insert(libc::SYS_socketpair, vec![rule(&[(0, Ne, unix)])?]);
    let (inject, console) = (is(libc::TIOCSTI), is(libc::TIOCLINUX));
    rules.insert(
        libc::SYS_ioctl,
        vec![rule(&[(1, inject.0, inject.1)])?, rule(&[(1, console.0, console.1)])?],
    );
    // Modes with the bits that change the user or group of a program.
    let modes: &[(i64, u8)] = &[
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (FCHMODAT2, 2),
        (libc::SYS_mknodat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, 1),
    ];
    for (call, argument) in modes {
        let bits = [SET_USER_ID, SET_GROUP_ID].map(|bit| rule(&[(*argument, MaskedEq(bit), bit)]));
        rules.insert(*call, bits.into_iter().collect::<Result<_, _>>()?);
    }
    // The mode of an opened file counts only if it is created.
    let opens: &[(i64, u8)] = &[
        (libc::SYS_openat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1),
    ];
    for (call, flags) in opens {
        let mut all = Vec::new();
        for creates in [libc::O_CREAT as u64, (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64] {
            for bit in [SET_USER_ID, SET_GROUP_ID] {
                all.push(rule(&[(*flags, MaskedEq(creates), creates), (*flags + 1, MaskedEq(bit), bit)])?);
            }
        }
        rules.insert(*call, all);
    }
    Ok(rules)
}

/// Returns the rules for calls that a sandbox does not have: their arguments are in memory, where a filter cannot see them.
fn missing() -> Rules {
    Rules::from([(libc::SYS_openat2, Vec::new())])
}

/// Adds the numbers of the x32 variant of each call, which otherwise would pass.
#[cfg(target_arch = "x86_64")]
fn with_variants(mut rules: Rules) -> Rules {
    // x32 has a number of its own for some calls.
    let own = BTreeMap::from([(libc::SYS_ioctl, 514), (libc::SYS_kexec_load, 528)]);
    let variants: Vec<_> =
        rules.iter().map(|(call, rules)| (own.get(call).unwrap_or(call) | X32, rules.clone())).collect();
    rules.extend(variants);
    rules
}

#[cfg(not(target_arch = "x86_64"))]
fn with_variants(rules: Rules) -> Rules {
    rules
}

fn programs() -> Result<Vec<BpfProgram>, String> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let filters = [(refused()?, libc::EPERM), (missing(), libc::ENOSYS)];
    let compile = |(rules, code): (Rules, i32)| {
        let action = SeccompAction::Errno(code as u32);
        let filter = SeccompFilter::new(with_variants(rules), SeccompAction::Allow, action, architecture)
            .map_err(|error| error.to_string())?;
        BpfProgram::try_from(filter).map_err(|error| error.to_string())
    };
    filters.into_iter().map(compile).collect()
}

/// Refuses the calls from now on, for this process and its children. It cannot be undone.
pub(crate) fn apply() -> Result<(), String> {
    for program in programs()? {
        seccompiler::apply_filter(&program).map_err(|error| format!("seccomp: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile() {
        assert_eq!(programs().unwrap().len(), 2);
        assert!(refused().unwrap().contains_key(&libc::SYS_socket));
    }
}
