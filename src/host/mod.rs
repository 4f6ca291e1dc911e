//! Floor 1: what the operating system knows about clocks, processes and this machine. The only module that reads
//! `/proc`; everything in it has a portable answer, so that the rest compiles on macOS.

mod clock;
mod environment;
pub mod kill_point;
mod process;
pub mod program;

pub use clock::{BootInstant, boot_id, boot_now, host_name};
pub use environment::{is_plain, plain_environment};
pub use process::{
    ProcessStamp, descendants, group_members, marked, memory_of, memory_of_processes, own_binary,
    own_control_group, process_stamp,
};
