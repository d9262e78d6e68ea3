// Package people has the endpoints of those who look after the accounts of others: the list of
// local accounts, and the changes of one.
//
// # Job
//
// accounts.admins says who looks after accounts. They see all local accounts, with how many
// logins and second factors each has. They add and invite users, disable and enable accounts,
// change roles, remove second factors and end logins. Each change of the file of accounts is one
// edit. Each change is a line in the audit log.
//
// # Limits
//
// An account of the configuration is in the list, and cannot be changed here. No one sets the
// password of another user: that user sets it, by the link of an invitation.
//
// # Threats
//
// To all others there is nothing here: package endpoint answers 404 to other users and to
// tokens. A change needs a fresh sign-in. Users give no role that they do not have. An account with
// such a role, or one that a policy lets in and that does not let in them, is out of their reach: with
// an invitation for it, they would be that account. They cannot disable, demote or reset themselves, so that the last
// one who looks after accounts stays. Their rights are checked again while no other change of the file can be made,
// because another one may have taken them away since the request began. Logins end before the file changes, so that
// it does not change if the store does not answer.
package people
