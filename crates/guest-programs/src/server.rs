// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server that a program's measured command needs: started in the set-up, with nothing in it.
//!
//! It runs until the guest goes down. mariadb has every transaction on the disk when it is
//! answered, as by default; only sizes are smaller than a server's. redis writes nothing to the
//! disk. memcached and nginx need a user, which a guest that has none gets. Left out: other users
//! and their rights, tables that mariadb does without, and the network, in
//! whose place are local sockets: the lab's kernel has no TCP.

use crate::program::{BUSYBOX, MARIADBD, MEMCACHED, NGINX, REDIS};

/// What sysbench names the database.
const DATABASE: &str = "sbtest";

/// Starts the server in the folder `$1`, with the arguments from `$3` on, and comes back when it
/// has printed `$2`, or `/proc/net/unix` has that. One that an earlier workload left is stopped.
/// The caller's limit bounds both waits.
const START: &str = r#"
folder=$1 ready=$2 log=$1/log pid=$1/pid
shift 2
# One that has ended may still be there: nobody waits for it. Its command line does not tell, as it
# is empty on the way through exec, too.
runs() { grep -q ') [^ZX] ' "/proc/$1/stat" 2>/dev/null; }
if [ -f "$pid" ]; then
	old=$(cat "$pid")
	kill "$old"
	while runs "$old"; do sleep 0.1; done
fi
rm -rf "$folder"
mkdir -p "$folder/data" || exit 1
: >"$log"
BEFORE
setsid "$@" >"$log" 2>&1 </dev/null &
server=$!
until grep -q "$ready" "$log" /proc/net/unix; do
	runs "$server" || { tail -n 20 "$log" >&2; exit 1; }
	sleep 0.1
done
"#;

/// Where the server of this name listens.
pub(crate) fn socket(scratch: &str, name: &str) -> String {
    format!("{scratch}/{name}/socket")
}

/// The command that starts the server `name`, after the line `before` of a shell.
fn start(folder: &str, [name, ready, before]: [&str; 3], argv: Vec<String>) -> Vec<String> {
    let script = START.replace("BEFORE", before);
    let words = [BUSYBOX, "sh", "-c", &script, name, folder, ready];
    words.map(str::to_owned).into_iter().chain(argv).collect()
}

/// The command that starts mariadb.
pub(crate) fn mariadb(scratch: &str) -> Vec<String> {
    let folder = format!("{scratch}/mariadb");
    let before = format!("echo 'CREATE DATABASE {DATABASE};' >\"$folder/init.sql\"");
    let mut argv = vec![MARIADBD.to_owned()];
    argv.extend(OPTIONS.iter().map(|&option| option.to_owned()));
    for (option, file) in [
        ("datadir", "data"),
        ("tmpdir", "data"),
        ("socket", "socket"),
        ("pid-file", "pid"),
        ("init-file", "init.sql"),
    ] {
        argv.push(format!("--{option}={folder}/{file}"));
    }
    start(&folder, ["mariadb", "ready for connections", &before], argv)
}

/// The command that starts redis. Debian's redis-tools has the server under the name of a checker,
/// which is a server under every other name.
pub(crate) fn redis(scratch: &str) -> Vec<String> {
    let folder = format!("{scratch}/redis");
    let before = format!("ln -s {REDIS} \"$folder/redis-server\"");
    let mut argv = vec![format!("{folder}/redis-server")];
    for (option, value) in [
        ("port", "0"),
        ("save", ""),
        ("appendonly", "no"),
        ("unixsocket", &socket(scratch, "redis")),
        ("pidfile", &format!("{folder}/pid")),
        ("dir", &format!("{folder}/data")),
    ] {
        argv.extend([format!("--{option}"), value.to_owned()]);
    }
    start(&folder, ["redis", "ready to accept", &before], argv)
}

/// A line of a shell that adds root where there are no users.
const ROOT: &str = "mkdir -p /etc
[ -f /etc/passwd ] || echo root:x:0:0:root:/:/bin/sh >/etc/passwd
[ -f /etc/group ] || echo root:x:0: >/etc/group";

/// The command that starts memcached, with a thread for each CPU. It prints nothing: it is ready
/// when it listens, which is the flag `__SO_ACCEPTCON` of `/proc/net/unix`.
pub(crate) fn memcached(scratch: &str, cpus: u32) -> Vec<String> {
    let folder = format!("{scratch}/memcached");
    let socket = socket(scratch, "memcached");
    let mut argv = vec![MEMCACHED.to_owned()];
    for (option, value) in [
        ("-u", "root"),
        ("-s", &socket),
        ("-P", &format!("{folder}/pid")),
        ("-t", &cpus.to_string()),
    ] {
        argv.extend([option.to_owned(), value.to_owned()]);
    }
    let ready = format!(" 00010000 .* {socket}$");
    start(&folder, ["memcached", &ready, ROOT], argv)
}

/// The configuration of nginx, and the page that it serves: 1 KiB.
const PAGE: &str = r#"
cat >"$folder/nginx.conf" <<END
daemon off;
user root root;
worker_processes CPUS;
pid $folder/pid;
error_log stderr notice;
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path $folder/body;
	proxy_temp_path $folder/proxy;
	fastcgi_temp_path $folder/fastcgi;
	uwsgi_temp_path $folder/uwsgi;
	scgi_temp_path $folder/scgi;
	server { listen unix:$folder/socket; root $folder/data; }
}
END
head -c 1024 /dev/zero | tr '\0' x >"$folder/data/index.html"
"#;

/// The command that starts nginx, with a worker for each CPU.
pub(crate) fn nginx(scratch: &str, cpus: u32) -> Vec<String> {
    let folder = format!("{scratch}/nginx");
    let before = format!("{ROOT}{}", PAGE.replace("CPUS", &cpus.to_string()));
    let file = format!("{folder}/nginx.conf");
    let argv = [NGINX, "-e", "stderr", "-c", &file].map(str::to_owned);
    start(
        &folder,
        ["nginx", "start worker process", &before],
        argv.to_vec(),
    )
}

/// Options of mariadb, but for its files. The first has to be the first.
const OPTIONS: &[&str] = &[
    "--no-defaults",
    "--user=root",
    "--skip-grant-tables",
    "--skip-networking",
    "--lc-messages-dir=/usr/share/mysql",
    "--character-sets-dir=/usr/share/mysql/charsets",
    // The lab's kernel has no io_uring.
    "--innodb-use-native-aio=0",
    // Where statistics would be kept is a table of the server itself.
    "--innodb-stats-persistent=0",
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=8M",
    "--innodb-data-file-path=ibdata1:5M:autoextend",
    "--innodb-temp-data-file-path=ibtmp1:5M:autoextend",
    "--innodb-autoextend-increment=1",
    "--aria-log-file-size=8M",
    "--aria-pagecache-buffer-size=1M",
    "--key-buffer-size=1M",
    "--performance-schema=0",
];

#[cfg(test)]
mod tests {
    use super::START;
    use std::process::Command;

    /// What the script makes of process 7 if `/proc` has its state and no command line, as it
    /// is on the way through exec.
    fn runs(name: &str, state: Option<char>) -> bool {
        let proc = std::env::temp_dir().join(format!("steady-{name}-{}", std::process::id()));
        std::fs::create_dir_all(proc.join("7")).unwrap();
        if let Some(state) = state {
            std::fs::write(proc.join("7/cmdline"), "").unwrap();
            std::fs::write(proc.join("7/stat"), format!("7 (mariadbd) {state} 1 7")).unwrap();
        }
        let function = START.lines().find(|line| line.starts_with("runs()"));
        let function = function.unwrap().replace("/proc", proc.to_str().unwrap());
        let script = format!("{function}\nruns 7");
        let status = Command::new("sh").args(["-c", &script]).status();
        std::fs::remove_dir_all(&proc).unwrap();
        status.unwrap().success()
    }

    #[test]
    fn a_server_that_has_no_command_line_yet_runs() {
        assert!(runs("exec", Some('R')));
        assert!(runs("exec-waits", Some('D')));
    }

    #[test]
    fn a_server_that_has_ended_does_not_run_whether_or_not_it_is_waited_for() {
        assert!(!runs("zombie", Some('Z')));
        assert!(!runs("gone", None));
    }
}
