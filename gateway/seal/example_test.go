package seal_test

import (
	"bytes"
	"errors"
	"fmt"

	"authgate/gateway/seal"
)

// A message can be opened only at the place for which it was sealed.
func Example() {
	box, err := seal.New(bytes.Repeat([]byte("x"), seal.MinSecret)) // a real secret is random
	if err != nil {
		fmt.Println(err)
		return
	}
	sealed := box.Seal([]byte("refresh token"), "login:alice")

	message, err := box.Open(sealed, "login:alice")
	fmt.Printf("%s %v\n", message, err)
	_, err = box.Open(sealed, "login:bob")
	fmt.Println(errors.Is(err, seal.ErrOpen))
	// Output:
	// refresh token <nil>
	// true
}
