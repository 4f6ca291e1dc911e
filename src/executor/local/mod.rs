//! Processes on this machine.
