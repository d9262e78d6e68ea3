// Package signin has the endpoints where users of local accounts sign in: the sign-in page,
// passwords, second steps, passkeys, invitations, refresh. It also gives those who are
// signed in sessions at other hosts.
//
// # Limits and threats
//
// An endpoint redirects only to paths on this origin and to the gateway's own hosts. Users
// sign in at the host of public_url, and get their sessions at other hosts by tickets. A
// new login ends the logins that the request presents, so that a browser has one identity.
// Success is answered only once the store has recorded it: cookies are set last. A client that
// leaves does not stop its sign-in.
package signin
