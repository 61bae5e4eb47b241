// SPDX-License-Identifier: GPL-2.0

//! States of a context.
//!
//! ```text
//!   Private -- publish --> Live -- close (the device is removed) --> Closing
//!      |                    |                                          |
//!      +------------------- destroy, one of all that try --------------+--> Dead
//! ```

/// State of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It is being made, and is not found.
    Private,
    /// It may be used.
    Live,
    /// Its device is gone; it can only be destroyed.
    Closing,
    /// It is being destroyed, and is not found.
    Dead,
}

/// Why a context is not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// `ENOENT`: there is none.
    None,
    /// `EINVAL`: another file has it.
    Foreign,
    /// `ENXIO`: it can only be destroyed.
    Closing,
}

impl Life {
    /// Returns whether a file finds the context; `mine` says that the file has it.
    ///
    /// # Errors
    ///
    /// See [`Lost`].
    pub fn find(self, mine: bool) -> Result<(), Lost> {
        match self {
            Self::Private | Self::Dead => Err(Lost::None),
            Self::Live | Self::Closing if !mine => Err(Lost::Foreign),
            Self::Closing => Err(Lost::Closing),
            Self::Live => Ok(()),
        }
    }

    /// The program knows the context.
    pub fn publish(&mut self) {
        if *self == Self::Private {
            *self = Self::Live;
        }
    }

    /// The device is gone.
    pub fn close(&mut self) {
        if *self == Self::Live {
            *self = Self::Closing;
        }
    }

    /// Begins the destruction. Returns true for one of all callers.
    pub fn destroy(&mut self) -> bool {
        let first = *self != Self::Dead;
        *self = Self::Dead;
        first
    }

    /// Begins the destruction for a program.
    ///
    /// # Errors
    ///
    /// See [`Lost`].
    pub fn destroy_found(&mut self, mine: bool) -> Result<(), Lost> {
        match self.find(mine) {
            Ok(()) | Err(Lost::Closing) => {
                *self = Self::Dead;
                Ok(())
            }
            Err(lost) => Err(lost),
        }
    }
}
