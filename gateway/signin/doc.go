// Package signin has the endpoints where users sign in and out: the sign-in page,
// passwords, identity providers and their callback, sessions at other hosts, refresh
// and logout.
//
// # Limits and threats
//
// An endpoint redirects only to paths on this origin, to the gateway's own
// hosts and to configured identity providers. Users sign in at the host of
// public_url, and get their sessions at other hosts by tickets. A new login ends the logins that
// the request presents, so that a browser has one identity. What the store has
// not recorded is not answered with success: cookies are set, and logouts
// confirmed, last. A client that leaves does not stop what it has begun.
package signin
