// SPDX-License-Identifier: GPL-2.0

//! What a method accepts for one attribute (`struct uverbs_attr_spec`).

/// What a call does with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Shares it with other readers.
    Read,
    /// Has it alone.
    Write,
    /// Makes it.
    New,
    /// Destroys it.
    Destroy,
}

impl Access {
    /// The access of a number (`enum uverbs_obj_access`).
    pub const fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Read),
            1 => Some(Self::Write),
            2 => Some(Self::New),
            3 => Some(Self::Destroy),
            _ => None,
        }
    }

    /// Whether the object is made or destroyed. A method does that to at most one object.
    pub const fn is_exclusive(self) -> bool {
        matches!(self, Self::New | Self::Destroy)
    }
}

/// Bytes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// The fewest.
    pub min: u16,
    /// The most that this kernel knows.
    pub len: u16,
    /// Further bytes are accepted if they are zero.
    pub zero_trailing: bool,
    /// They are copied to kernel memory before the method runs, unless they are inline.
    pub alloc_and_copy: bool,
}

/// The choices of a [`Kind::Enum`].
pub trait Choices {
    /// Whether this kernel knows a choice.
    fn known(&self, choice: u8) -> bool;

    /// The bytes of a choice; `None` if it is not of bytes that a method reads.
    fn get(&self, choice: u8) -> Option<Bytes>;
}

/// The kind of an attribute (`enum uverbs_attr_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<C> {
    /// Bytes that the method reads.
    In(Bytes),
    /// Bytes that the method writes.
    Out(Bytes),
    /// A handle.
    Handle {
        /// Number of the object.
        object: u16,
        /// What is done with it.
        access: Access,
    },
    /// A file descriptor that stands for an object.
    File {
        /// Number of the object.
        object: u16,
        /// What is done with it.
        access: Access,
    },
    /// A file descriptor that the method looks up itself.
    RawFile,
    /// One of several kinds of bytes that the method reads.
    Enum(C),
    /// Handles.
    Handles {
        /// Number of the object.
        object: u16,
        /// What is done with each.
        access: Access,
        /// The fewest.
        min: u16,
        /// The most.
        max: u16,
    },
}

/// What a method accepts for one attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec<C> {
    /// The kind.
    pub kind: Kind<C>,
    /// A call without it is refused.
    pub mandatory: bool,
    /// It is for the driver (`UVERBS_ATTR_UHW`).
    pub is_udata: bool,
}

impl<C> Spec<C> {
    /// The number of the object, of attributes that have one.
    pub const fn object(&self) -> Option<u16> {
        match self.kind {
            Kind::Handle { object, .. }
            | Kind::File { object, .. }
            | Kind::Handles { object, .. } => Some(object),
            Kind::In(_) | Kind::Out(_) | Kind::RawFile | Kind::Enum(_) => None,
        }
    }

    /// What is done with the object, of attributes that have a single one.
    pub const fn access(&self) -> Option<Access> {
        match self.kind {
            Kind::Handle { access, .. } | Kind::File { access, .. } => Some(access),
            Kind::In(_) | Kind::Out(_) | Kind::RawFile | Kind::Enum(_) | Kind::Handles { .. } => {
                None
            }
        }
    }

    /// What is done with each object, of attributes that have several.
    pub const fn array_access(&self) -> Option<Access> {
        match self.kind {
            Kind::Handles { access, .. } => Some(access),
            Kind::In(_)
            | Kind::Out(_)
            | Kind::Handle { .. }
            | Kind::File { .. }
            | Kind::RawFile
            | Kind::Enum(_) => None,
        }
    }
}
