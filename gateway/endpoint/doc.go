// Package endpoint has the gateway's own endpoints: sign-in, logout, refresh,
// the callback of identity providers, and what tells people and programs who
// they are.
//
// [New] makes a table of them. Each endpoint is a type with the dependencies
// that it needs. It serves a [web.Exchange], whose request was read and whose
// host was checked, and returns an error that the gateway passes to
// [web.Exchange.Fail].
//
// # Limits and threats
//
// An endpoint redirects only to paths on this origin, to the gateway's own
// hosts and to configured identity providers. Users sign in at the host of
// public_url, and get their sessions at other hosts by tickets. A new login ends the logins that
// the request presents, so that a browser has one identity. What the store has
// not recorded is not answered with success: cookies are set, and logouts
// confirmed, last. A client that leaves does not stop what it has begun.
package endpoint
