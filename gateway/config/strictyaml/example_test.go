package strictyaml_test

import (
	"fmt"
	"os"
	"time"

	"authgate/gateway/config/strictyaml"
)

type server struct {
	Address string            `yaml:"address"`
	Timeout time.Duration     `yaml:"timeout"`
	Token   strictyaml.Secret `yaml:"token"`
}

func ExampleReader() {
	source := "address: example.org:80\ntimeuot: 5s\ntoken: abcdefgh\n"
	r := strictyaml.NewReader(strictyaml.Options{
		Main: "server.yaml", Lookup: os.LookupEnv, SecretKeys: []string{"token"},
	})
	var s server
	doc := r.Read(r.Main, []byte(source), 1<<20, "", &s)
	if s.Timeout == 0 {
		doc.Fault("timeout", "must be longer than 0") // not reported: the key is misspelled
	}
	if len(s.Token) < 32 {
		doc.Fault("token", "must have at least 32 characters")
	}
	fmt.Println(r.Err())
	// Output:
	// server.yaml:2:1: timeuot: unknown key; did you mean "timeout"?
	//   2 | timeuot: 5s
	//     | ^
	// server.yaml:3:8: token: must have at least 32 characters
	//   3 | token: [masked]
	//     |        ^
}
