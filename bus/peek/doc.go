// Package peek reads the few facts that routing needs from a request body, in one
// pass and without decoding the rest, and says how to edit it by byte splices.
//
// The body itself is never re-encoded. The scan checks the whole syntax, so that
// no two parsers on the way can disagree about which model a body names: a model
// key that appears twice, or in another spelling of case, is an error, and keys
// are compared after their escapes are resolved.
//
// What only helps to choose an agent (see [Hints]) is read in the same pass, without
// that strictness. Where the prompt stands in the body is remembered, so that its
// size is known and its [Prefix] can be hashed without looking for it again.
package peek
