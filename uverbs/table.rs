// SPDX-License-Identifier: GPL-2.0

//! What `ib_uverbs` can do, as tables: objects, their methods and attributes, write commands, and
//! what a driver must have for each.
//!
//! Each object's file has its table ([`Def`]); [`CORE`] lists them. A device's methods are merged
//! from these and the driver's ([`crate::api`]). The numbers are those of
//! `include/uapi/rdma/ib_user_ioctl_cmds.h` and `ib_user_verbs.h`.

use crate::edge::call::Call;
use crate::edge::definitions::Need;
use crate::edge::handle::Type;
use crate::object;
use crate::proto::spec::Access;
use crate::proto::spec::Bytes;
use crate::proto::spec::Kind as Accepts;
use crate::proto::write::Command;
use kernel::prelude::*;
use rdma::bindings;

/// A function that carries out a method or command.
pub(crate) type Handler = fn(&Call) -> Result;

/// A line of a table. It is of the object that was begun last.
pub(crate) enum Def {
    /// An object begins, with its type and methods. It has them once.
    Tree(Tree),
    /// An object begins, whose type is described elsewhere.
    Object(u32),
    /// A command of `write`.
    Write(Write),
    /// The object vanishes if the driver does not have this method.
    ObjectNeeds(Need),
    /// The command vanishes if the driver does not have this method.
    CommandNeeds(Need),
}

/// An object's type and methods.
pub(crate) struct Tree {
    /// The number.
    pub(crate) id: u32,
    /// The type of its handles, if it has any.
    pub(crate) of: Option<Type>,
    /// The methods.
    pub(crate) methods: &'static [Method],
}

/// A method for ioctl.
pub(crate) struct Method {
    /// The number.
    pub(crate) id: u32,
    /// The function.
    pub(crate) run: Handler,
    /// The attributes. One list may follow another, such as [`UHW`].
    pub(crate) attributes: &'static [&'static [Attribute]],
}

/// A part of a table that is there if the kernel has a feature; the name is that of a constant in
/// `rdma::features`.
macro_rules! only {
    ($feature:ident, $part:expr) => {
        const {
            match rdma::features::$feature {
                true => const { $part },
                false => &[],
            }
        }
    };
}
pub(crate) use only;

/// How many choices an attribute has. None has data.
#[derive(Clone, Copy)]
pub(crate) struct Count(pub(crate) u8);

/// An attribute.
pub(crate) struct Attribute {
    /// The number.
    pub(crate) id: u32,
    /// What is accepted.
    pub(crate) accepts: Accepts<Count>,
    /// A call without it is refused.
    pub(crate) mandatory: bool,
    /// It is for the driver.
    pub(crate) is_udata: bool,
}

/// Request and answer of a driver (`UVERBS_ATTR_UHW`).
pub(crate) const UHW: &[Attribute] = &[
    Attribute {
        is_udata: true,
        ..Attribute::input(bindings::UVERBS_ATTR_UHW_IN, 0, u16::MAX)
    },
    Attribute {
        is_udata: true,
        ..Attribute::output(bindings::UVERBS_ATTR_UHW_OUT, 0, u16::MAX)
    },
];

/// The size of a structure of the ABI.
const fn size<T>() -> u16 {
    assert!(size_of::<T>() <= u16::MAX as usize);
    // CAST: Checked above.
    size_of::<T>() as u16
}

const fn bytes(min: u16, len: u16) -> Bytes {
    Bytes {
        min,
        len,
        zero_trailing: false,
        alloc_and_copy: false,
    }
}

impl Attribute {
    const fn new(id: u32, accepts: Accepts<Count>) -> Self {
        Self {
            id,
            accepts,
            mandatory: false,
            is_udata: false,
        }
    }

    /// The same, which must be given.
    pub(crate) const fn mandatory(mut self) -> Self {
        self.mandatory = true;
        self
    }

    /// The same, of which a program may give more bytes if they are zero.
    pub(crate) const fn zero_trailing(mut self) -> Self {
        if let Accepts::In(bytes) | Accepts::Out(bytes) = &mut self.accepts {
            bytes.zero_trailing = true;
        }
        self
    }

    /// The same, whose bytes are copied before the method runs.
    pub(crate) const fn copied(mut self) -> Self {
        if let Accepts::In(bytes) | Accepts::Out(bytes) = &mut self.accepts {
            bytes.alloc_and_copy = true;
        }
        self
    }

    /// From `min` to `len` bytes that the method reads.
    pub(crate) const fn input(id: u32, min: u16, len: u16) -> Self {
        Self::new(id, Accepts::In(bytes(min, len)))
    }

    /// A `T` that the method reads (`UVERBS_ATTR_TYPE`).
    pub(crate) const fn input_of<T>(id: u32) -> Self {
        Self::input(id, size::<T>(), size::<T>())
    }

    /// A `T` of which a program gives at least `min` bytes (`UVERBS_ATTR_STRUCT`).
    pub(crate) const fn input_struct<T>(id: u32, min: usize) -> Self {
        // CAST: Part of a structure of the ABI.
        Self::input(id, min as u16, size::<T>()).zero_trailing()
    }

    /// From `min` to `len` bytes that the method writes.
    pub(crate) const fn output(id: u32, min: u16, len: u16) -> Self {
        Self::new(id, Accepts::Out(bytes(min, len)))
    }

    /// A `T` that the method writes.
    pub(crate) const fn output_of<T>(id: u32) -> Self {
        Self::output(id, size::<T>(), size::<T>())
    }

    /// A `T` of which a program has room for at least `min` bytes.
    pub(crate) const fn output_struct<T>(id: u32, min: usize) -> Self {
        // CAST: Part of a structure of the ABI.
        Self::output(id, min as u16, size::<T>()).zero_trailing()
    }

    /// A number (`UVERBS_ATTR_CONST_IN`).
    pub(crate) const fn constant(id: u32) -> Self {
        Self::input_of::<u64>(id)
    }

    /// Flags, of 32 or 64 bits (`UVERBS_ATTR_FLAGS_IN`).
    pub(crate) const fn flags(id: u32) -> Self {
        Self::input(id, size::<u32>(), size::<u64>())
    }

    /// One of `count` choices (`UVERBS_ATTR_ENUM_IN`).
    pub(crate) const fn choice(id: u32, count: u8) -> Self {
        Self::new(id, Accepts::Enum(Count(count)))
    }

    /// A file descriptor that the method looks up itself.
    pub(crate) const fn raw_file(id: u32) -> Self {
        Self::new(id, Accepts::RawFile)
    }

    /// The handle of an object. One that is made or destroyed is mandatory.
    pub(crate) const fn handle(id: u32, object: u32, access: Access) -> Self {
        // CAST: Numbers of objects have 16 bits.
        let object = object as u16;
        let this = Self::new(id, Accepts::Handle { object, access });
        match access.is_exclusive() {
            true => this.mandatory(),
            false => this,
        }
    }

    /// The file descriptor of an object. One that is made is mandatory.
    pub(crate) const fn file(id: u32, object: u32, access: Access) -> Self {
        // CAST: Numbers of objects have 16 bits.
        let object = object as u16;
        let this = Self::new(id, Accepts::File { object, access });
        match access.is_exclusive() {
            true => this.mandatory(),
            false => this,
        }
    }
}

/// A command that programs write, or invoke by ioctl.
pub(crate) struct Write {
    /// The number.
    pub(crate) number: u32,
    /// The function.
    pub(crate) run: Handler,
    /// The lengths that a header must have.
    pub(crate) command: Command,
}

/// The size of a request or answer.
const fn small<T>() -> u8 {
    assert!(size_of::<T>() <= u8::MAX as usize);
    // CAST: Checked above.
    size_of::<T>() as u8
}

impl Write {
    /// A command without an answer.
    pub(crate) const fn input<Request>(number: u32, run: Handler) -> Self {
        Self {
            number,
            run,
            command: Command {
                is_extended: false,
                request: small::<Request>(),
                response: 0,
                has_response: false,
                has_udata: false,
            },
        }
    }

    /// A command with an answer, whose address the request begins with.
    pub(crate) const fn both<Request, Answer>(number: u32, run: Handler) -> Self {
        let mut this = Self::input::<Request>(number, run);
        this.command.response = small::<Answer>();
        this.command.has_response = true;
        this
    }

    /// The same, with a request and an answer for the driver behind.
    pub(crate) const fn udata(mut self) -> Self {
        self.command.has_udata = true;
        self
    }

    /// An extended command, with `()` for no answer. The lengths of its request and answer are the
    /// handler's matter.
    pub(crate) const fn extended<Request, Answer>(number: u32, run: Handler) -> Self {
        // The header counts both in words of 8 bytes.
        assert!(size_of::<Request>() % 8 == 0 && size_of::<Answer>() % 8 == 0);
        Self {
            number,
            run,
            command: Command {
                is_extended: true,
                ..Command::UNKNOWN
            },
        }
    }
}

/// A method that only destroys the object of its handle, by the attribute `id`.
pub(crate) fn nothing(_call: &Call) -> Result {
    Ok(())
}

/// The tables of all objects.
pub(crate) const CORE: &[&[Def]] = &[
    object::ah::TABLE,
    object::async_event::TABLE,
    object::comp_channel::TABLE,
    only!(COMP_CNTR, object::comp_cntr::TABLE),
    object::counters::TABLE,
    object::cq::TABLE,
    object::device::TABLE,
    object::dm::TABLE,
    object::dmabuf::TABLE,
    object::dmah::TABLE,
    object::flow::TABLE,
    object::flow_action::TABLE,
    object::mcast::TABLE,
    object::mr::TABLE,
    object::mw::TABLE,
    object::pd::TABLE,
    object::post::TABLE,
    object::qp::TABLE,
    object::qp_attr::TABLE,
    object::rwq_table::TABLE,
    object::srq::TABLE,
    object::wq::TABLE,
    object::xrcd::TABLE,
];
