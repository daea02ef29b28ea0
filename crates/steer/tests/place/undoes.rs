// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is a host as before at the end, however that comes?

use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;

use steady_hostview::Cpus;
use steady_steer::place::{Moved, Options, What};
use steady_steer::{State, Undone};

use crate::made::{MS, Made, OnIt, options, parted, placer, qemu, sleeps, steps};

#[test]
fn stacked_siblings_are_parted_and_have_their_pcpus_back_at_the_end() {
    let (made, placer, _) = parted();
    let mut sets: Vec<String> = (41..45).map(|tid| made.allowed(tid)).collect();
    sets.sort();
    assert_eq!(sets, ["0", "1", "2", "3"]);
    let undone = placer.finish().unwrap();
    assert_eq!(
        undone,
        Undone {
            back: 4,
            ..Undone::default()
        }
    );
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
    assert_eq!(fs::read_to_string(made.state()).unwrap(), "");
}

#[test]
fn what_a_killed_one_has_left_is_undone_by_the_next() {
    let (made, placer, _) = parted();
    // As after SIGKILL: nothing of its end is run, but the kernel frees its lock.
    drop(placer);
    assert_ne!(made.allowed(42), "0-3");
    let mut hands = OnIt(Rc::clone(&made));
    let (_, undone) = State::<Moved>::take(&made.state(), &made.host(), &mut hands).unwrap();
    assert_eq!(undone.back, 4);
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
}

#[test]
fn a_thread_whose_number_is_another_s_by_then_is_not_touched() {
    let (made, placer, _) = parted();
    drop(placer);
    made.change(41, |task| task.started = 9999);
    let set = made.allowed(41);
    let mut hands = OnIt(Rc::clone(&made));
    let (_, undone) = State::<Moved>::take(&made.state(), &made.host(), &mut hands).unwrap();
    assert_eq!((undone.back, undone.gone), (3, 1));
    assert_eq!(made.allowed(41), set);
}

#[test]
fn what_somebody_else_has_pinned_since_stays_and_is_not_placed_again() {
    let (made, mut placer, mut at) = parted();
    made.change(43, |task| task.allowed = "2-3".parse().unwrap());
    steps(&made, &mut placer, &mut at, 40);
    assert_eq!(made.allowed(43), "2-3");
    let undone = placer.finish().unwrap();
    assert_eq!((undone.back, undone.theirs), (3, 1));
    assert_eq!(made.allowed(43), "2-3");
}

#[test]
fn a_cpuset_that_shrinks_leaves_no_vcpu_on_fewer_pcpus_at_the_end() {
    let (made, mut placer, mut at) = parted();
    let gone: Cpus = made.allowed(44).parse().unwrap();
    let left = "0-3".parse::<Cpus>().unwrap().without(&gone);
    let group = made.root.path().join("sys/fs/cgroup/machine.slice/x.scope");
    fs::create_dir_all(&group).unwrap();
    fs::write(group.join("cpuset.cpus.effective"), format!("{left}\n")).unwrap();
    // The kernel gives a thread whose CPUs are all gone those of its cpuset.
    made.change(44, |task| task.allowed = left.clone());
    steps(&made, &mut placer, &mut at, 40);
    let undone = placer.finish().unwrap();
    assert_eq!((undone.back, undone.theirs), (4, 0));
    // The made kernel does not cut what it is given by the cpuset.
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
}

#[test]
fn without_rights_there_is_one_error_and_nothing_is_changed() {
    let made = Made::new(4);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 4, "0-3");
    *made.refuses.borrow_mut() = Some(io::ErrorKind::PermissionDenied);
    let mut placer = placer(&made, options());
    let mut failed = None;
    for at in 1..20 {
        made.runs(100);
        failed = failed.or(placer.step(at * 100 * MS).err());
    }
    let said = failed.unwrap().to_string();
    assert!(said.contains("CAP_SYS_NICE"), "{said}");
    assert_eq!(*made.sets.borrow(), 0);
}

#[test]
fn a_state_that_is_not_a_file_is_refused_at_once() {
    let made = Made::new(2);
    let mut hands = OnIt(Rc::clone(&made));
    let full = Path::new("/dev/full");
    let said = State::<Moved>::take(full, &made.host(), &mut hands).unwrap_err();
    assert!(
        said.to_string().contains("open /dev/full: not a file"),
        "{said}"
    );
}

#[test]
fn pins_are_by_number_and_given_back_at_the_end() {
    let made = Made::new(2);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 3, "0-1");
    let mut placer = placer(
        &made,
        Options {
            pin: true,
            ..options()
        },
    );
    steps(&made, &mut placer, &mut 0, 3);
    assert_eq!([41, 42, 43].map(|tid| made.allowed(tid)), ["0", "1", "0"]);
    assert_eq!(placer.finish().unwrap().back, 3);
    assert_eq!(made.allowed(41), "0-1");
}

#[test]
fn what_the_kernel_refuses_to_undo_stays_in_the_file_for_another() {
    let (made, placer, _) = parted();
    drop(placer);
    *made.refuses.borrow_mut() = Some(io::ErrorKind::PermissionDenied);
    let mut hands = OnIt(Rc::clone(&made));
    let take = |hands: &mut OnIt| State::<Moved>::take(&made.state(), &made.host(), hands);
    let (_, undone) = take(&mut hands).unwrap();
    assert_eq!((undone.back, undone.refused), (0, 4));
    assert!(undone.whole(&made.state()).is_err());
    *made.refuses.borrow_mut() = None;
    assert_eq!(take(&mut hands).unwrap().1.back, 4);
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
}

#[test]
fn a_state_file_that_was_removed_is_written_again_and_all_is_undone() {
    let (made, mut placer, mut at) = parted();
    fs::remove_file(made.state()).unwrap();
    steps(&made, &mut placer, &mut at, 1);
    assert!(fs::metadata(made.state()).unwrap().len() > 0);
    fs::remove_file(made.state()).unwrap();
    assert_eq!(placer.finish().unwrap().back, 4);
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
}

#[test]
fn a_link_beside_the_state_file_leads_to_no_file_that_is_written() {
    let (made, mut placer, mut at) = parted();
    let other = made.root.path().join("other");
    fs::write(&other, "kept").unwrap();
    std::os::unix::fs::symlink(&other, made.state().with_extension("new")).unwrap();
    fs::remove_file(made.state()).unwrap();
    at += 100_000_000;
    assert!(placer.step(at).is_err(), "its file cannot be written again");
    assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
}

#[test]
fn a_vm_that_is_no_longer_seen_is_given_back_at_the_end() {
    let (made, mut placer, mut at) = parted();
    for tid in 41..45 {
        made.change(tid, |task| task.comm = "renamed".to_owned());
    }
    placer.scan();
    steps(&made, &mut placer, &mut at, 5);
    let undone = placer.finish().unwrap();
    assert_eq!(undone.back, 4, "{undone:?}");
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
}

#[test]
fn a_file_with_something_else_in_it_is_refused_and_kept() {
    let made = Made::new(2);
    fs::create_dir_all(made.state().parent().unwrap()).unwrap();
    fs::write(made.state(), "my notes\n").unwrap();
    let mut hands = OnIt(Rc::clone(&made));
    let said = State::<Moved>::take(&made.state(), &made.host(), &mut hands).unwrap_err();
    assert!(
        said.to_string().contains("something else than changes"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(made.state()).unwrap(), "my notes\n");
    let link = made.root.path().join("link");
    std::os::unix::fs::symlink(made.state(), &link).unwrap();
    assert!(State::<Moved>::take(&link, &made.host(), &mut hands).is_err());
}

#[test]
fn a_vcpu_that_its_cpuset_alone_bounds_follows_that_again() {
    let made = Made::new(8);
    made.vm(40, "qemu-system-x86_64 -name web", qemu, 4, "0-3");
    let group = made.root.path().join("sys/fs/cgroup/machine.slice/x.scope");
    fs::create_dir_all(&group).unwrap();
    fs::write(group.join("cpuset.cpus.effective"), "0-3\n").unwrap();
    let mut placer = placer(&made, options());
    steps(&made, &mut placer, &mut 0, 15);
    assert_ne!(made.allowed(41), "0-3");
    placer.finish().unwrap();
    // All that may come: the kernel cuts it by the cpuset of then.
    assert!((41..45).all(|tid| made.allowed(tid) == "0-7"));
}

#[test]
fn what_cannot_be_given_back_now_is_given_back_at_the_end() {
    let (made, mut placer, mut at) = parted();
    *made.refuses.borrow_mut() = Some(io::ErrorKind::InvalidInput);
    assert_eq!(sleeps(&mut placer, &mut at), [What::GiveBack]);
    assert_ne!(made.allowed(41), "0-3");
    *made.refuses.borrow_mut() = None;
    let undone = placer.finish().unwrap();
    assert_eq!(undone.back, 4, "{undone:?}");
    assert!((41..45).all(|tid| made.allowed(tid) == "0-3"));
}

#[test]
fn one_that_was_killed_between_the_note_and_the_change_is_undone() {
    let (made, placer, _) = parted();
    drop(placer);
    // The last line is of a change that was not made.
    let mut text = fs::read_to_string(made.state()).unwrap();
    let last = text
        .lines()
        .find(|line| line.contains("\"tid\":41,"))
        .unwrap();
    let set = format!("\"set\":\"{}\"", made.allowed(41));
    assert!(last.contains(&set), "{last}");
    text = text.clone() + &last.replace(&set, "\"set\":\"0-1\"") + "\n";
    fs::write(made.state(), text).unwrap();
    let mut hands = OnIt(Rc::clone(&made));
    let (_, undone) = State::<Moved>::take(&made.state(), &made.host(), &mut hands).unwrap();
    assert_eq!((undone.back, undone.theirs), (4, 0));
}
