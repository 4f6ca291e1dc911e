//! How the program is linked.

use std::env;

/// A chunk costs one start of this program (`__exec`), and a start cost most of what a chunk does: the tables of time
/// zones alone are some fifty thousand pointers, which a program that can lie anywhere has to correct each time. Linked
/// to lie in one place it has none to correct, and 1,000 chunks that do nothing take 2.0 s instead of 2.7 s on two
/// processors (`benches/overhead.rs`). The price is that the addresses of our own code are not random any more; those of
/// libraries, stack and heap still are.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |key: &str| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
