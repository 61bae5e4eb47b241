// SPDX-License-Identifier: GPL-2.0

//! Every kept input once more: the smallest corpus that covers what fuzzing reached, and
//! the inputs that broke something before it was corrected.

use std::fs;
use std::path::Path;

use rxe_fuzz::TARGETS;

fn replay(name: &str) {
    let (_, run) = TARGETS.iter().find(|(n, _)| *n == name).expect("a target");
    let mut count = 0;
    for kept in ["corpus", "regress"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(kept).join(name);
        let Ok(files) = fs::read_dir(&folder) else {
            continue;
        };
        for file in files {
            let path = file.expect("a folder that can be read").path();
            let input = fs::read(&path).expect("a file that can be read");
            if let Err(panic) = std::panic::catch_unwind(|| run(&input)) {
                eprintln!("{} fails", path.display());
                std::panic::resume_unwind(panic);
            }
            count += 1;
        }
    }
    assert!(count > 20, "only {count} inputs are kept for {name}");
}

#[test]
fn packets() {
    replay("packets");
}

#[test]
fn rings() {
    replay("rings");
}

#[test]
fn ucma() {
    replay("ucma");
}

#[test]
fn wire() {
    replay("wire");
}

#[test]
fn cm() {
    replay("cm");
}
