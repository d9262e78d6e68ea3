package auth_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"authgate/gateway/auth"
)

func ExampleReadCredentials() {
	header := http.Header{
		"Authorization": {"Bearer abc.def.ghi"},
		"Cookie":        {"theme=dark; session_id=4711"},
	}
	names := &auth.CookieNames{Session: "session_id"}
	creds, err := auth.ReadCredentials(header, names, netip.MustParseAddr("192.0.2.7"))
	fmt.Println(creds.Scheme, creds.Value, creds.Session, err)
	fmt.Println(names.ToApplication(header["Cookie"], false, ""))

	header.Add("Cookie", "session_id=4712")
	_, err = auth.ReadCredentials(header, names, netip.MustParseAddr("192.0.2.7"))
	fmt.Println(errors.Is(err, auth.ErrAmbiguous))
	// Output:
	// bearer abc.def.ghi 4711 <nil>
	// [theme=dark]
	// true
}
