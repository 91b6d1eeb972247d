//go:build older

// What the driver answers where a version lacks an option (newer.go).
package main

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"interop/serve"
)

func serverSide() (kgo.Opt, error) {
	return nil, serve.NotOffered("this version has no consumer protocol")
}
