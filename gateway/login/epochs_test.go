package login

import (
	"context"
	"testing"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/store"
)

// A login counts only while its account has been the same ever since, even
// over restarts in which the account was gone and came back as it was.
func TestTenure(t *testing.T) {
	t.Parallel()
	const password = "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"
	const another = "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"
	alice := auth.Account{Username: "alice", PasswordHash: password}
	bob := auth.Account{Username: "bob", PasswordHash: another}
	for name, gone := range map[string][]auth.Account{
		"removed":       {bob},
		"disabled":      {{Username: "alice", PasswordHash: password, Disabled: true}, bob},
		"re-passworded": {{Username: "alice", PasswordHash: another}, bob},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, now := context.Background(), time.Unix(1_000_000, 0)
			s := store.NewMemory(func() time.Time { return now })
			t.Cleanup(func() { s.Close() })
			settled := func(users ...auth.Account) *auth.Accounts {
				t.Helper()
				now = now.Add(time.Minute)
				a, err := auth.NewAccounts(users)
				if err == nil {
					err = a.UpdateEpochs(ctx, s, now)
				}
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			begin := func(a *auth.Accounts, username string) *Login {
				account, _ := a.Lookup(username)
				return &Login{Username: username, Version: account.Version(), Created: now}
			}
			counts := func(login *Login, a *auth.Accounts) bool {
				_, ok := login.current(a)
				return ok
			}

			before := settled(alice, bob)
			ofAlice, ofBob := begin(before, "alice"), begin(before, "bob")
			if same := settled(alice, bob); !counts(ofAlice, same) || !counts(ofBob, same) {
				t.Error("a reload that changes nothing ended logins")
			}
			if counts(ofAlice, settled(gone...)) {
				t.Errorf("the login of an account that is %s counts", name)
			}
			back := settled(alice, bob)
			if counts(ofAlice, back) {
				t.Errorf("the login counts again when the account, once %s, is back", name)
			}
			if !counts(begin(back, "alice"), back) {
				t.Error("a new login of the account that is back does not count")
			}
			if !counts(ofBob, back) {
				t.Error("the login of another account was ended")
			}
		})
	}
}
