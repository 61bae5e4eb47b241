// SPDX-License-Identifier: GPL-2.0

//! Sysfs: attributes, attribute groups, and directories (`struct kobject`).
//!
//! - [`Page`] receives the output of a `show` method. [`Input`] is the input of a `store` method,
//!   made from the arguments [`Written`] and [`Count`].
//! - An *attribute* is a C structure that begins with `struct attribute` ([`Attribute`]); the
//!   fields behind it depend on the kind of the directory. It is a constant, or part of a [`Group`]
//!   that is created at run time.
//! - A [`StaticGroup`] is a constant group of constant attributes; a [`GroupRef`] refers to either
//!   type.
//! - A [`Directory`] is a `struct kobject` with data. [`Added`] keeps it visible; its drop removes
//!   it with all its files, and waits for running `show` and `store` methods.
//!
//! `show` and `store` run in process context and may sleep. Removal of a file waits for them, so
//! they must not take a lock that is held during a removal.
//!
//! C headers: `include/linux/sysfs.h`, `include/linux/kobject.h`.

mod directory;
mod group;
mod page;

pub use self::directory::Added;
pub use self::directory::Directory;
pub use self::directory::Fresh;
pub use self::directory::Kind;
pub use self::group::constant;
pub use self::group::dynamic;
pub use self::group::Attribute;
pub use self::group::Extends;
pub use self::group::Group;
pub use self::group::GroupRef;
pub use self::group::StaticGroup;
pub use self::page::Count;
pub use self::page::Input;
pub use self::page::Page;
pub use self::page::Written;
