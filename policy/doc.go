// Package policy decides who may make which request. It holds the identity
// that the gateway's mechanisms prove, the policies that operators write, the
// table of routes, and the one canonical form of a request that all of them
// look at. It is pure: no I/O, no clock, no state beyond what it was built
// from, so every value is safe for concurrent use and every decision can be
// repeated.
//
// # Shape
//
// [ParseTarget] and [CanonicalHost] turn what a client sent into a [Request].
// [Table.Match] finds its [Route], and [Route.Decide] answers allow, challenge
// or forbid, together with the rule that decided. [Compile] and [NewTable] do
// all the checking and all the wording beforehand, so that a decision
// allocates nothing, and they report everything that is wrong at once.
//
// # Threats
//
// A path that the gateway and an application read differently opens what was
// meant to be closed. Hence a path has one meaning here or is refused: what is
// decided on is the decoded form of exactly the bytes that are forwarded, and
// nothing passes that a second decoding, or any further one, could turn into
// another path.
//
// A mistake in the configuration must not open a door either. Zero values
// deny: the zero Route, the zero Policy, the zero Outcome and the nil
// Identity. Whatever a policy says that can't be understood, or that can't
// ever apply, is an error.
//
// # Limits
//
// Two requests can still mean one thing to an application alone, for instance
// when it reads paths without regard to case, or drops what follows a
// semicolon: "/admin;x" is not matched by a route for "/admin". In front of
// such an application use routes that end in a slash or a wildcard, or close
// "/" and open single paths.
//
// A route for one method leaves the other methods to less specific routes:
// beside "GET /admin", a public "/" serves "POST /admin".
//
// The query is forwarded as it came, and no decision reads it. Networks are
// compared with the address in [Request].Client; whether that address can be
// believed is settled before a Request is made.
package policy
