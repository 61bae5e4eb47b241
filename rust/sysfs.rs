// SPDX-License-Identifier: GPL-2.0

//! Files of sysfs: attributes, groups of them, and directories of one's own.
//!
//! - [`Page`] is where a file writes what is read of it, [`Input`] what was written to it, of which C
//!   hands us [`Written`] and [`Count`].
//! - An *attribute* is a C structure that begins with `struct attribute`
//!   ([`Attribute`]): what its directory's kind calls to show it follows there. It is constant
//!   data, or part of a [`Group`] that is made at run time.
//! - A [`StaticGroup`] is a constant group of constant attributes; [`GroupRef`] is either.
//! - A [`Directory`] is a `struct kobject` with data. [`Added`] keeps it visible; dropping that
//!   removes it with all its files, and waits until nobody reads or writes one.
//!
//! Files are shown and stored in process context and may sleep. Whoever removes a file waits for
//! them, so they take no lock that is held around a removal.
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
