// SPDX-License-Identifier: GPL-2.0

//! The methods and commands of one device: those of [`crate::table`], and what its driver defines.
//!
//! [`Api::new`] merges them as [`crate::proto::definitions`] says, and leaves flat arrays, in which
//! calls find what they need by an index. Objects are also in the tree of C's `struct uverbs_api`,
//! where `ib_uverbs_support` (C's or ours) looks them up.
//!
//! Methods of a driver are not called when the device is gone: [`Method::run`] asks for the device
//! first, within the section of `disassociate_srcu` that each call is in.

use crate::edge::call::Call;
use crate::edge::definitions;
use crate::edge::definitions::Definition;
use crate::edge::definitions::DriverChoices;
use crate::edge::definitions::DriverHandler;
use crate::edge::device::ApiObjects;
use crate::edge::device::CMethod;
use crate::edge::handle::Type;
use crate::proto::definitions::commands;
use crate::proto::definitions::remove_disabled;
use crate::proto::definitions::summarize;
use crate::proto::definitions::Cursor;
use crate::proto::definitions::Element;
use crate::proto::definitions::MethodDefinition;
use crate::proto::definitions::Scope;
use crate::proto::definitions::Summary;
use crate::proto::definitions::Tree;
use crate::proto::definitions::WriteDefinition;
use crate::proto::key::Bit;
use crate::proto::key::Key;
use crate::proto::key::Place;
use crate::proto::spec::Kind;
use crate::proto::spec::Spec;
use crate::proto::write::Command;
use crate::proto::write::Number;
use crate::proto::Refusal;
use crate::quick;
use crate::quick::Supported;
use crate::table;
use crate::table::Def;
use crate::table::Handler;
use kernel::prelude::*;
use rdma::edge::device::Device;
use rdma::edge::uverbs::ApiObject;

/// The errno of a refusal.
pub(crate) fn errno(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Invalid => EINVAL,
        Refusal::NotSupported => crate::edge::unsupported(),
        Refusal::NoProtocol => rdma::errno::eprotonosupport(),
        Refusal::NoSpace => ENOSPC,
        Refusal::Fault => EFAULT,
        Refusal::Exists => EEXIST,
        Refusal::NoMemory => ENOMEM,
        Refusal::Overflow => EOVERFLOW,
    }
}

/// A function for a method or command.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// A function of this module.
    Core(Handler),
    /// A function of the driver.
    Driver(DriverHandler),
}

impl Run {
    /// Carries it out.
    ///
    /// # Errors
    ///
    /// Those of the method.
    pub(crate) fn run(self, call: &Call) -> Result {
        match self {
            Self::Core(handler) => handler(call),
            Self::Driver(handler) => handler.run(call),
        }
    }
}

/// A method of a device.
pub(crate) struct Method {
    /// The part that C code reads.
    c: CMethod,
    run: Run,
    is_driver: bool,
    summary: Summary,
    /// For each bit, one more than the index in `specs`; 0 if there is no such attribute.
    index: [u8; crate::proto::key::BITS as usize],
    specs: KVec<(Bit, Spec<DriverChoices>)>,
}

impl Method {
    /// The method as C knows it.
    pub(crate) fn raw(&self) -> *const crate::private::uverbs_api_ioctl_method {
        self.c.raw()
    }

    /// The function, in a section of `disassociate_srcu`; it may be called until the section ends.
    ///
    /// # Errors
    ///
    /// `EIO`: it is the driver's, whose device is gone.
    pub(crate) fn run(&self, call: &Call) -> Result<Run> {
        if self.is_driver {
            call.device()?;
        }
        Ok(self.run)
    }

    /// Whether a function of this module carries it out.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.run, Run::Core(_))
    }

    /// One more than the highest bit of an attribute.
    pub(crate) fn bits(&self) -> u8 {
        self.summary.bits
    }

    /// What must be given, and what happens around the method.
    pub(crate) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// What is accepted for an attribute.
    pub(crate) fn spec(&self, bit: Bit) -> Option<&Spec<DriverChoices>> {
        let index = *self.index.get(usize::from(bit.get()))?;
        let index = usize::from(index.checked_sub(1)?);
        self.specs.get(index).map(|(_, spec)| spec)
    }

    /// The attributes, by bits.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = Bit> + '_ {
        self.specs.iter().map(|(bit, _)| *bit)
    }
}

/// A command of a device.
#[derive(Clone, Copy)]
pub(crate) struct WriteCommand {
    run: Option<Run>,
    /// The lengths that its header must have.
    pub(crate) command: Command,
}

impl WriteCommand {
    /// Of a number that the device does not have, below the highest one.
    const UNKNOWN: Self = Self {
        run: None,
        command: Command::UNKNOWN,
    };

    /// Carries it out.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: the device does not have it; `EIO`: it is the driver's, and the device is gone;
    /// those of the command.
    pub(crate) fn run(&self, call: &Call) -> Result {
        let run = self.run.ok_or_else(crate::edge::unsupported)?;
        if let Run::Driver(_) = run {
            call.device()?;
        }
        run.run(call)
    }
}

/// Number of keys of objects and methods.
const METHODS: usize = 1 << 10;

/// The methods and commands of a device.
pub(crate) struct Api {
    driver: u32,
    /// By the key of the method, without the bits of attributes.
    methods: KVec<Option<KBox<Method>>>,
    objects: ApiObjects,
    plain: KVec<WriteCommand>,
    extended: KVec<WriteCommand>,
    quick: Supported,
}

impl Api {
    /// Merges the methods of a device. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EEXIST`, `EOVERFLOW`: the driver's definitions are wrong; `ENOMEM`.
    pub(crate) fn new(device: &Device, mut objects: ApiObjects) -> Result<Self> {
        let mut tree = Sorted(KVec::new());
        for list in table::CORE {
            add_core(&mut tree, device, list).map_err(errno)?;
        }
        if let Some(list) = definitions::List::of(device) {
            add_driver(&mut tree, device, list, 0).map_err(errno)?;
        }
        remove_disabled(&mut tree);
        let (plain, extended) = commands(&mut tree);
        let mut this = Self {
            driver: device.ops().driver_id,
            methods: KVec::with_capacity(METHODS, GFP_KERNEL)?,
            plain: KVec::with_capacity(plain.into(), GFP_KERNEL)?,
            extended: KVec::with_capacity(extended.into(), GFP_KERNEL)?,
            objects: ApiObjects::none(),
            quick: Supported::default(),
        };
        for _ in 0..METHODS {
            this.methods.push(None, GFP_KERNEL)?;
        }
        for _ in 0..plain {
            this.plain.push(WriteCommand::UNKNOWN, GFP_KERNEL)?;
        }
        for _ in 0..extended {
            this.extended.push(WriteCommand::UNKNOWN, GFP_KERNEL)?;
        }
        let mut from = Some(0);
        while let Some(key) = from.and_then(|from| tree.next(from)) {
            from = key.raw().checked_add(1);
            let Some(element) = tree.get(key).copied() else {
                continue;
            };
            match element {
                Element::Object(object) => objects.add(key, object.of)?,
                Element::Method(method) => {
                    let made = build(&mut tree, key, method)?;
                    if let Some(place) = this.methods.get_mut(place_of(key)) {
                        *place = Some(made);
                    }
                }
                Element::Write(write) => {
                    let command = WriteCommand {
                        run: write.handler,
                        command: write.command,
                    };
                    let place = match key.place() {
                        Place::Write(number) => this.plain.get_mut(usize::from(number)),
                        Place::WriteEx(number) => this.extended.get_mut(usize::from(number)),
                        _ => None,
                    };
                    if let Some(place) = place {
                        *place = command;
                    }
                }
                Element::Attribute(_) => {}
            }
        }
        this.objects = objects;
        this.quick = Supported {
            ring: this.has_core(quick::POST_SEND),
            notify: this.has_core(quick::REQ_NOTIFY_CQ),
            invoke: this.has_core(quick::REQ_NOTIFY_CQ)
                && this
                    .method(quick::DEVICE, quick::INVOKE_WRITE)
                    .is_some_and(|method| {
                        method.is_ours()
                            && Bit::of_attribute(quick::WRITE_CMD)
                                .is_some_and(|bit| bit.mask() == method.summary.mandatory)
                    }),
        };
        Ok(this)
    }

    /// Whether the device has a plain command, which a function of this module carries out.
    fn has_core(&self, number: u8) -> bool {
        let command = self.plain.get(usize::from(number));
        command.is_some_and(|command| matches!(command.run, Some(Run::Core(_))))
    }

    /// Which of the quick calls the device has.
    #[inline]
    pub(crate) fn quick(&self) -> Supported {
        self.quick
    }

    /// The driver that programs must be made for.
    pub(crate) fn driver(&self) -> u32 {
        self.driver
    }

    /// A method.
    pub(crate) fn method(&self, object: u16, method: u16) -> Option<&Method> {
        let key = Key::of_object(object)?.method(method)?;
        self.methods.get(place_of(key))?.as_deref()
    }

    /// A command.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: the number is beyond the highest one.
    pub(crate) fn command(&self, number: Number) -> Result<&WriteCommand> {
        match number {
            Number::Plain(number) => rdma::nospec::get(&self.plain, number.into()),
            Number::Extended(number) => rdma::nospec::get(&self.extended, number.into()),
        }
        .ok_or_else(crate::edge::unsupported)
    }

    /// The description of an object.
    pub(crate) fn object(&self, id: u32) -> Option<&ApiObject> {
        self.objects.get(Key::of_object(u16::try_from(id).ok()?)?)
    }

    /// The type of an object's handles.
    pub(crate) fn type_of(&self, id: u16) -> Option<Type> {
        self.objects.type_of(Key::of_object(id)?)
    }

    /// The device is gone: what belongs to its driver is not used any more. No call runs that has
    /// begun before.
    pub(crate) fn disassociate(&self) {
        self.objects.disassociate();
    }
}

/// The place of a method in the array.
fn place_of(key: Key) -> usize {
    usize::from(key.raw() >> 6)
}

type Elements = Element<Type, Run, DriverChoices>;

/// The elements while they are merged, sorted by their keys.
struct Sorted(KVec<(u16, Elements)>);

impl Sorted {
    fn find(&self, key: u16) -> core::result::Result<usize, usize> {
        self.0.binary_search_by_key(&key, |(key, _)| *key)
    }
}

impl Tree for Sorted {
    type Type = Type;
    type Handler = Run;
    type Choices = DriverChoices;

    fn insert(&mut self, key: Key, element: Elements) -> core::result::Result<(), Refusal> {
        let place = match self.find(key.raw()) {
            Ok(_) => return Err(Refusal::Exists),
            Err(place) => place,
        };
        let all = &mut self.0;
        all.reserve(1, GFP_KERNEL).map_err(|_| Refusal::NoMemory)?;
        all.insert_within_capacity(place, (key.raw(), element))
            .map_err(|_| Refusal::NoMemory)
    }

    fn get(&mut self, key: Key) -> Option<&mut Elements> {
        let place = self.find(key.raw()).ok()?;
        self.0.get_mut(place).map(|(_, element)| element)
    }

    fn next(&self, from: u16) -> Option<Key> {
        let place = self.find(from).unwrap_or_else(|place| place);
        self.0.get(place).map(|(key, _)| Key::from_raw(*key))
    }

    fn remove(&mut self, key: Key) {
        if let Ok(place) = self.find(key.raw()) {
            let _ = self.0.remove(place);
        }
    }
}

/// A number of the core's table.
fn number(number: u32) -> core::result::Result<u16, Refusal> {
    u16::try_from(number).map_err(|_| Refusal::Overflow)
}

/// Adds a list of the core.
fn add_core(tree: &mut Sorted, device: &Device, list: &[Def]) -> core::result::Result<(), Refusal> {
    let mut at = Cursor::new(false);
    for def in list {
        match def {
            Def::Object(id) => at.object(tree, number(*id)?)?,
            Def::Tree(object) => {
                if object.of.is_some_and(|of| !of.has_id(object.id)) {
                    return Err(Refusal::Invalid);
                }
                at.typed_object(tree, number(object.id)?, object.of, true)?;
                for method in object.methods {
                    let key = at.method(
                        tree,
                        &MethodDefinition {
                            id: number(method.id)?,
                            handler: Some(Run::Core(method.run)),
                            is_default: false,
                        },
                    )?;
                    for attribute in method.attributes.iter().flat_map(|list| list.iter()) {
                        let spec = Spec {
                            kind: core_kind(&attribute.accepts),
                            mandatory: attribute.mandatory,
                            is_udata: attribute.is_udata,
                        };
                        at.attribute(tree, key, number(attribute.id)?, spec)?;
                    }
                }
            }
            Def::Write(write) => at.write(
                tree,
                &WriteDefinition {
                    number: number(write.number)?,
                    handler: Some(Run::Core(write.run)),
                    command: write.command,
                    permitted: is_permitted(device, write.number),
                },
            )?,
            Def::ObjectNeeds(need) if need.is_there(device) => {}
            Def::CommandNeeds(need) if need.is_there(device) => {}
            Def::ObjectNeeds(_) => at.unsupported(tree, Scope::Object)?,
            Def::CommandNeeds(_) => at.unsupported(tree, Scope::Method)?,
        }
    }
    Ok(())
}

fn core_kind(kind: &Kind<table::Count>) -> Kind<DriverChoices> {
    match *kind {
        Kind::In(bytes) => Kind::In(bytes),
        Kind::Out(bytes) => Kind::Out(bytes),
        Kind::Handle { object, access } => Kind::Handle { object, access },
        Kind::File { object, access } => Kind::File { object, access },
        Kind::RawFile => Kind::RawFile,
        Kind::Enum(table::Count(count)) => Kind::Enum(DriverChoices::without_data(count)),
        Kind::Handles {
            object,
            access,
            min,
            max,
        } => Kind::Handles {
            object,
            access,
            min,
            max,
        },
    }
}

/// Whether the device permits a plain command.
fn is_permitted(device: &Device, number: u32) -> bool {
    device
        .uverbs_cmd_mask()
        .checked_shr(number)
        .is_some_and(|mask| mask & 1 != 0)
}

/// Maximum nesting depth of a driver's definition lists.
const DEPTH: u32 = 8;

/// Adds a list of a driver.
fn add_driver(
    tree: &mut Sorted,
    device: &Device,
    list: definitions::List<'_>,
    depth: u32,
) -> core::result::Result<(), Refusal> {
    if depth > DEPTH {
        return Err(Refusal::Invalid);
    }
    let mut at = Cursor::new(true);
    for definition in list {
        match definition {
            Definition::Chain(None) => {}
            Definition::Chain(Some(list)) => {
                add_driver(tree, device, list, depth.saturating_add(1))?;
            }
            Definition::Object(id) => at.object(tree, id)?,
            Definition::Tree(object) => {
                let (of, allowed) = object.of().unzip();
                at.typed_object(tree, object.id(), of, allowed.unwrap_or(true))?;
                for method in object.methods().filter(|method| method.has_attributes()) {
                    let key = at.method(
                        tree,
                        &MethodDefinition {
                            id: method.id(),
                            handler: method.handler().map(Run::Driver),
                            is_default: method.is_default(),
                        },
                    )?;
                    for (id, spec) in method.attributes() {
                        at.attribute(tree, key, id, spec.ok_or(Refusal::Invalid)?)?;
                    }
                }
            }
            Definition::Write(number, handler, command) => at.write(
                tree,
                &WriteDefinition {
                    number,
                    handler: handler.map(Run::Driver),
                    command,
                    permitted: is_permitted(device, number.into()),
                },
            )?,
            Definition::Needs(_, true) => {}
            Definition::Needs(definitions::Scope::Object, false) => {
                at.unsupported(tree, Scope::Object)?;
            }
            Definition::Needs(definitions::Scope::Method, false) => {
                at.unsupported(tree, Scope::Method)?;
            }
            Definition::Needs(definitions::Scope::Unknown, false) | Definition::Unknown => {
                return Err(Refusal::Invalid);
            }
        }
    }
    Ok(())
}

/// Makes a method of its element and attributes.
fn build(
    tree: &mut Sorted,
    key: Key,
    method: crate::proto::definitions::Method<Run>,
) -> Result<KBox<Method>> {
    let summary = summarize(tree, key).map_err(errno)?;
    let mut specs = KVec::with_capacity(summary.attributes.into(), GFP_KERNEL)?;
    let mut index = [0; crate::proto::key::BITS as usize];
    let mut from = key.raw().checked_add(1);
    while let Some(next) = from.and_then(|from| tree.next(from)) {
        if !key.family().contains(&next.raw()) {
            break;
        }
        from = next.raw().checked_add(1);
        if let (Place::Attribute(bit), Some(Element::Attribute(spec))) =
            (next.place(), tree.get(next))
        {
            specs.push((bit, *spec), GFP_KERNEL)?;
            if let Some(place) = index.get_mut(usize::from(bit.get())) {
                *place = u8::try_from(specs.len())?;
            }
        }
    }
    Ok(KBox::new(
        Method {
            c: CMethod::new(),
            // A definition without a function is a fault of the driver's.
            run: method.handler.ok_or(EINVAL)?,
            is_driver: method.is_driver,
            summary,
            index,
            specs,
        },
        GFP_KERNEL,
    )?)
}
