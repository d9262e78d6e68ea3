// Package journey keeps the state of a sign-in that takes the browser to other places: to an
// identity provider and back, or to another host of the gateway.
//
// # Job
//
// [Attempts] are the sign-ins that have begun at a provider and are not finished. [Tickets]
// bring a login to the other hosts of the gateway, each of which has a session of its own. A
// browser is told by the secret in one of its cookies. The package knows of a login only its
// sid: package login begins logins and attaches sessions to them.
//
// # Limits
//
// Its records live for minutes, and work once. A store that fails is an error and never a decision.
//
// # Threats
//
// An attempt is bound to the browser that began it. A ticket is for one host and one browser.
// A copy of the store opens nothing: secrets are stored as hashes, attempts are encrypted with
// the key of the gateway, and each ticket with a key made from its secret.
package journey
