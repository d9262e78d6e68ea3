package password_test

import (
	"fmt"

	"authgate/gateway/password"
)

// A hash is made once, stored, and verified at each login.
func Example() {
	stored, err := password.New("correct horse battery staple")
	if err != nil {
		fmt.Println(err)
		return
	}
	hash, err := password.Parse(stored)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(hash.Cost())
	fmt.Println(hash.Verify("correct horse battery staple"), hash.Verify("password"))
	// Output:
	// argon2id,m=19456,t=2,p=1
	// true false
}
