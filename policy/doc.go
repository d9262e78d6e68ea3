// Package policy decides which requests are allowed. It defines the identity
// that the gateway's mechanisms prove, the policies that operators write, the
// table of routes, and the canonical form of a request.
//
// The package is pure: it has no I/O and no clock, and its values do not change
// after they are made. All values are safe for concurrent use.
//
// # Use
//
// [ParseTarget] (or [ParseTargetWithSlashes], or [ParseTargetOpaque] with
// [Table.CheckReadings]) and [CanonicalHost] turn the target and the host that a client
// sends into a [Request]. [Table.Match] finds the [Route] of the request.
// [Route.Decide] returns allow, challenge or forbid, together with the rule that
// decided. [Compile] and [NewTable] check everything in advance, so a decision
// allocates nothing. They report all errors at once.
//
// The package is also the home of rules that others need in the same form:
// [ParseNetwork], [CheckRole], [CheckName], [CheckScope], [CheckClaim],
// [LookupClaim] and [Loopback].
//
// # Threats
//
// If the gateway and an application read a path differently, a request can
// reach a resource that a policy closes. So a path has one meaning here or is
// refused. The decision uses the decoded form of exactly the bytes that are
// forwarded. ParseTarget refuses every path that a second or further decoding
// turns into another path.
//
// A mistake in the configuration must not allow requests either. Zero values
// deny: the zero Route, the zero Policy, the zero Outcome and the nil Identity. A route
// that admits requests without credentials (None after its mechanisms) decides about
// a nil Identity by the request alone, so that signing out opens nothing.
// A part of a policy that has no clear meaning, or that can never apply, is an
// error.
//
// # Limits
//
// Two requests can have one meaning for an application and two meanings here,
// for example if the application ignores the case of paths, or drops the
// parameters after a semicolon: "/admin;x" does not match a route for "/admin".
// In front of such an application use routes that end in a slash or a wildcard,
// or close "/" and open single paths.
//
// A route for one method leaves the other methods to less specific routes:
// beside "GET /admin", a public "/" serves "POST /admin".
//
// The query is forwarded unchanged, and no decision reads it. Networks are
// compared with [Request].Client. The caller must make sure that this address
// is authentic.
package policy
