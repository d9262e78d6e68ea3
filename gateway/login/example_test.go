package login_test

import (
	"context"
	"fmt"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/password"
	"authgate/gateway/store"
)

// A login begins with the handles that belong to it, here a session. When the
// login ends, the session is not valid any more.
func ExampleLogins() {
	s := store.NewMemory(time.Now)
	defer s.Close()
	hash, err := password.Parse("$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW")
	if err != nil {
		fmt.Println(err)
		return
	}
	accounts := accounts.New([]accounts.Account{{Username: "alice", Hash: hash}},
		accounts.NewDecoyKey([]byte("a secret that is kept")), time.Now)
	alice, _ := accounts.Lookup("alice")

	logins := login.NewLogins(s, time.Now)
	sessions := login.NewSessions(login.SessionOptions{Lifetime: time.Hour}, accounts, logins)
	id, handle := sessions.New("gw.example")
	begun, err := logins.Begin(context.Background(), alice, login.Device{}, login.Term{Lifetime: time.Hour}, nil, handle)
	if err != nil {
		fmt.Println(err)
		return
	}
	identity, err := sessions.Authenticate(context.Background(), &auth.Credentials{Session: id, Scope: "gw.example"})
	fmt.Println(identity.Subject, err)

	ended, err := logins.End(context.Background(), begun.ID)
	fmt.Println(ended.Subject(), err)
	_, err = sessions.Authenticate(context.Background(), &auth.Credentials{Session: id, Scope: "gw.example"})
	fmt.Println(err)
	// Output:
	// local:alice <nil>
	// local:alice <nil>
	// auth: credential rejected: unknown, expired or ended session
}
