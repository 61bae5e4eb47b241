// SPDX-License-Identifier: GPL-2.0

//! The methods of a device, merged from definitions: the core's first, then the driver's.
//!
//! A driver may add objects, methods of any object, and attributes of any method; it may disable
//! what it cannot do. It may not change what is defined already.
//!
//! ```text
//!   Cursor::add, for each definition of a list -> remove_disabled -> of_method, commands
//! ```
//!
//! Definitions are C arrays, and what they become is a C tree that other modules look into, so both
//! belong to the caller: see [`Tree`].

use super::key::Bit;
use super::key::Key;
use super::key::Place;
use super::spec::Access;
use super::spec::Kind;
use super::spec::Spec;
use super::write::Command;
use super::Refusal;

/// The number that stands for any object (`UVERBS_IDR_ANY_OBJECT`).
pub const ANY_OBJECT: u16 = 0xffff;

/// An object, once it is merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object<T> {
    /// Its type; `None` if it has methods only.
    pub of: Option<T>,
    /// It will be removed.
    pub disabled: bool,
}

/// A method for ioctl, once it is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method<H> {
    /// The function; `None` if its definition has none, which is a fault of the kernel's.
    pub handler: Option<H>,
    /// It ends with the driver: it calls it, or reads its tables.
    pub is_driver: bool,
}

/// A write command, once it is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<H> {
    /// The function.
    pub handler: Option<H>,
    /// The lengths that its header must have.
    pub command: Command,
    /// It will be removed.
    pub disabled: bool,
}

/// What a key is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<T, H, C> {
    /// An object.
    Object(Object<T>),
    /// A method for ioctl.
    Method(Method<H>),
    /// An attribute of such a method.
    Attribute(Spec<C>),
    /// A write command.
    Write(Write<H>),
}

/// Elements by their keys.
pub trait Tree {
    /// The type of an object.
    type Type: Copy;
    /// A function.
    type Handler: Copy;
    /// The choices of an attribute.
    type Choices: Copy;

    /// Puts an element in the place of a key that has none.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoMemory`].
    fn insert(
        &mut self,
        key: Key,
        element: Element<Self::Type, Self::Handler, Self::Choices>,
    ) -> Result<(), Refusal>;

    /// The element of a key.
    fn get(&mut self, key: Key) -> Option<&mut Element<Self::Type, Self::Handler, Self::Choices>>;

    /// The first key from a number on.
    fn next(&self, from: u16) -> Option<Key>;

    /// Removes an element.
    fn remove(&mut self, key: Key);
}

/// A method as it is defined. Without attributes it is not added.
#[derive(Clone, Copy, Debug)]
pub struct MethodDefinition<H> {
    /// The number.
    pub id: u16,
    /// The function; `None` if this only adds attributes to a method.
    pub handler: Option<H>,
    /// The function is one of the core's, which does nothing.
    pub is_default: bool,
}

/// A write command as it is defined.
#[derive(Clone, Copy, Debug)]
pub struct WriteDefinition<H> {
    /// The number.
    pub number: u16,
    /// The function.
    pub handler: Option<H>,
    /// Lengths of request and answer.
    pub command: Command,
    /// The device permits the command, if it is a plain one.
    pub permitted: bool,
}

/// What a definition that is not supported is part of (`enum uapi_definition_scope`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The object that was begun last.
    Object,
    /// The command that was defined last.
    Method,
}

/// The place in a list of definitions.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// The list is the driver's.
    is_driver: bool,
    object: Option<Key>,
    command: Option<Key>,
}

/// Adds an element, or gives the one that is there.
fn get_or_add<R: Tree>(
    tree: &mut R,
    key: Key,
    element: Element<R::Type, R::Handler, R::Choices>,
) -> Result<bool, Refusal> {
    if tree.get(key).is_some() {
        return Ok(false);
    }
    tree.insert(key, element).map(|()| true)
}

impl Cursor {
    /// At the begin of a list. A list within a list has one of its own.
    pub const fn new(is_driver: bool) -> Self {
        Self {
            is_driver,
            object: None,
            command: None,
        }
    }

    /// An object begins: the definitions that follow are of it.
    ///
    /// # Errors
    ///
    /// [`Refusal::Overflow`], [`Refusal::NoMemory`].
    pub fn object<R: Tree>(&mut self, tree: &mut R, id: u16) -> Result<(), Refusal> {
        self.object = Key::of_object(id);
        let key = self.object.ok_or(Refusal::Overflow)?;
        let new = Object {
            of: None,
            disabled: false,
        };
        get_or_add(tree, key, Element::Object(new)).map(|_| ())
    }

    /// An object begins that has a tree of methods, and perhaps a type. `allowed` tells whether a
    /// driver may use the type.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: it has a type already, or the type is not for drivers;
    /// [`Refusal::Overflow`], [`Refusal::NoMemory`].
    pub fn typed_object<R: Tree>(
        &mut self,
        tree: &mut R,
        id: u16,
        of: Option<R::Type>,
        allowed: bool,
    ) -> Result<(), Refusal> {
        self.object(tree, id)?;
        let key = self.object.ok_or(Refusal::Overflow)?;
        let Some(Element::Object(object)) = tree.get(key) else {
            return Err(Refusal::Invalid);
        };
        if of.is_some() {
            if object.of.is_some() || (self.is_driver && !allowed) {
                return Err(Refusal::Invalid);
            }
            object.of = of;
        }
        Ok(())
    }

    /// A method of the object that was begun last. The attributes follow by
    /// [`attribute`](Self::attribute), with the key that this returns.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: there is such a method, and this has a function;
    /// [`Refusal::Overflow`], [`Refusal::NoMemory`].
    pub fn method<R: Tree>(
        &self,
        tree: &mut R,
        method: &MethodDefinition<R::Handler>,
    ) -> Result<Key, Refusal> {
        let key = self.object.and_then(|object| object.method(method.id));
        let key = key.ok_or(Refusal::Overflow)?;
        let new = Method {
            handler: method.handler,
            is_driver: self.is_driver && !method.is_default,
        };
        let is_new = get_or_add(tree, key, Element::Method(new))?;
        if !is_new && method.handler.is_some() {
            return Err(Refusal::Invalid);
        }
        Ok(key)
    }

    /// An attribute of a method.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: handles of which each would be made or destroyed;
    /// [`Refusal::Exists`]: the method has the attribute; [`Refusal::Overflow`],
    /// [`Refusal::NoMemory`].
    pub fn attribute<R: Tree>(
        &self,
        tree: &mut R,
        method: Key,
        id: u16,
        spec: Spec<R::Choices>,
    ) -> Result<(), Refusal> {
        // The choices are in a table of the driver's.
        if self.is_driver && matches!(spec.kind, Kind::Enum(_)) {
            if let Some(Element::Method(method)) = tree.get(method) {
                method.is_driver = true;
            }
        }
        if let Kind::Handles { access, .. } = spec.kind {
            if access.is_exclusive() {
                return Err(Refusal::Invalid);
            }
        }
        let bit = Bit::of_attribute(id).ok_or(Refusal::Overflow)?;
        let key = method.attribute(bit);
        if tree.get(key).is_some() {
            return Err(Refusal::Exists);
        }
        tree.insert(key, Element::Attribute(spec))
    }

    /// A write command of the object that was begun last; one that is there is defined anew.
    ///
    /// # Errors
    ///
    /// [`Refusal::Overflow`], [`Refusal::NoMemory`].
    pub fn write<R: Tree>(
        &mut self,
        tree: &mut R,
        write: &WriteDefinition<R::Handler>,
    ) -> Result<(), Refusal> {
        let is_extended = write.command.is_extended;
        let key = self.object.and_then(|object| match is_extended {
            true => object.write_ex(write.number),
            false => object.write(write.number),
        });
        let key = key.ok_or(Refusal::Overflow)?;
        let none = Write {
            handler: None,
            command: Command::UNKNOWN,
            disabled: false,
        };
        get_or_add(tree, key, Element::Write(none))?;
        let Some(Element::Write(element)) = tree.get(key) else {
            return Err(Refusal::Invalid);
        };
        element.handler = write.handler;
        element.command.is_extended = is_extended;
        if !is_extended {
            element.disabled = !write.permitted;
            if write.handler.is_some() {
                element.command = write.command;
            }
        }
        self.command = Some(key);
        Ok(())
    }

    /// What was defined last is not supported.
    ///
    /// # Errors
    ///
    /// [`Refusal::Overflow`]: nothing was defined; [`Refusal::NoMemory`].
    pub fn unsupported<R: Tree>(&self, tree: &mut R, scope: Scope) -> Result<(), Refusal> {
        let key = match scope {
            Scope::Object => self.object,
            Scope::Method => self.command,
        };
        match tree.get(key.ok_or(Refusal::Overflow)?) {
            Some(Element::Object(object)) => object.disabled = true,
            Some(Element::Write(write)) => write.disabled = true,
            Some(Element::Method(_) | Element::Attribute(_)) | None => {
                return Err(Refusal::Invalid);
            }
        }
        Ok(())
    }
}

/// Calls `act` for each key of a range that is in the tree; it may remove that element.
fn each<R: Tree>(
    tree: &mut R,
    keys: core::ops::RangeInclusive<u16>,
    mut act: impl FnMut(&mut R, Key),
) {
    let mut from = Some(*keys.start());
    while let Some(key) = from.and_then(|from| tree.next(from)) {
        if key.raw() > *keys.end() {
            return;
        }
        act(tree, key);
        from = key.raw().checked_add(1);
    }
}

fn remove_family<R: Tree>(tree: &mut R, key: Key) {
    each(tree, key.family(), |tree, key| tree.remove(key));
}

/// Removes what is disabled: objects with all their methods, commands, and methods of other objects
/// that cannot be called, because they need a handle of an object that is not there.
pub fn remove_disabled<R: Tree>(tree: &mut R) {
    each(tree, 0..=u16::MAX, |tree, key| match tree.get(key) {
        Some(Element::Object(object)) if object.disabled => remove_family(tree, key),
        Some(Element::Write(write)) if write.disabled => tree.remove(key),
        Some(
            Element::Object(_) | Element::Method(_) | Element::Attribute(_) | Element::Write(_),
        )
        | None => {}
    });
    each(tree, 0..=u16::MAX, |tree, key| {
        let Some(Element::Attribute(spec)) = tree.get(key) else {
            return;
        };
        let object = spec.object().filter(|id| *id != ANY_OBJECT);
        let Some(object) = object.filter(|_| spec.mandatory) else {
            return;
        };
        let present = Key::of_object(object).is_some_and(|key| tree.get(key).is_some());
        if !present {
            remove_family(tree, key.of_method());
        }
    });
}

/// What a call of a method needs to know of its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The attributes that must be given.
    pub mandatory: u64,
    /// There are attributes for the driver.
    pub has_udata: bool,
    /// The attribute whose object is destroyed.
    pub destroys: Option<Bit>,
    /// One more than the highest bit of an attribute.
    pub bits: u8,
    /// Number of attributes.
    pub attributes: u8,
}

/// Summarizes the attributes of a method.
///
/// # Errors
///
/// [`Refusal::Invalid`]: it would make or destroy several objects, or one whose handle may be
/// missing.
pub fn summarize<R: Tree>(tree: &mut R, method: Key) -> Result<Summary, Refusal> {
    let mut sum = Summary {
        bits: 1,
        ..Summary::default()
    };
    let mut single = false;
    let mut result = Ok(());
    each(tree, method.family(), |tree, key| {
        let (Place::Attribute(bit), Some(Element::Attribute(spec))) = (key.place(), tree.get(key))
        else {
            return;
        };
        if spec.mandatory {
            sum.mandatory |= bit.mask();
        }
        sum.has_udata |= spec.is_udata;
        if let Some(access) = spec.access() {
            if access.is_exclusive() && (single || !spec.mandatory) {
                result = Err(Refusal::Invalid);
            }
            single |= access.is_exclusive();
            if access == Access::Destroy {
                sum.destroys = Some(bit);
            }
        }
        sum.bits = sum.bits.max(bit.get().saturating_add(1));
        sum.attributes = sum.attributes.saturating_add(1);
    });
    result.map(|()| sum)
}

/// Counts the numbers of commands: one more than the highest of plain ones, and of extended ones.
pub fn commands<R: Tree>(tree: &mut R) -> (u8, u8) {
    let (mut plain, mut extended) = (1, 1);
    each(tree, 0..=u16::MAX, |_, key| match key.place() {
        Place::Write(number) => plain = plain.max(number.saturating_add(1)),
        Place::WriteEx(number) => extended = extended.max(number.saturating_add(1)),
        Place::Object | Place::Method | Place::Attribute(_) => {}
    });
    (plain, extended)
}
