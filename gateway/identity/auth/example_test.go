package auth_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"authgate/gateway/identity/auth"
)

func ExampleCredentials_Read() {
	header := http.Header{
		"Authorization": {"Bearer abc.def.ghi"},
		"Cookie":        {"theme=dark; session_id=4711"},
	}
	names := &auth.CookieNames{Session: "session_id"}
	var creds auth.Credentials
	err := creds.Read(header, names, netip.MustParseAddr("192.0.2.7"))
	fmt.Println(creds.Scheme, creds.Value, creds.Session, err)
	fmt.Println(names.ToApplication(header["Cookie"], false, ""))

	header.Add("Cookie", "session_id=4712")
	err = creds.Read(header, names, netip.MustParseAddr("192.0.2.7"))
	fmt.Println(errors.Is(err, auth.ErrAmbiguous))
	// Output:
	// bearer abc.def.ghi 4711 <nil>
	// [theme=dark]
	// true
}
