// SPDX-License-Identifier: GPL-2.0

//! Steps of the consumer's calls.

use super::super::ids::Instant;
use super::Actions;
use super::Call;
use super::CallError;
use super::Conn;
use super::Posting;
use super::Route;

impl<R: Route> Conn<R> {
    /// The consumer calls. `post` posts the message of the call; it is called at most once, before
    /// the state changes. The actions are to be carried out whatever the result is.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn call<E>(
        &mut self,
        call: Call<'_, R>,
        now: Instant,
        post: impl FnOnce(Posting<'_, R>) -> Result<(), E>,
    ) -> (Result<(), CallError<E>>, Actions<R>) {
        let _ = (call, now, post);
        todo!()
    }
}
