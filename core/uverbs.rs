// SPDX-License-Identifier: GPL-2.0

//! What the user-verbs module and drivers share of a user's call: answers, attributes,
//! mappings.
