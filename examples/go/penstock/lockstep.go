package penstock

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

// lockstep is a stream on which one request at a time is sent and answered. After an error it is of no use any more.
type lockstep[Request, Response any] struct {
	address string
	stream  grpc.BidiStreamingClient[Request, Response]
	cancel  context.CancelFunc
}

func openLockstep[Request, Response any](
	address string, open func(context.Context) (grpc.BidiStreamingClient[Request, Response], error),
) (*lockstep[Request, Response], *Error) {
	ctx, cancel := context.WithCancel(context.Background()) // the stream outlives the request that opens it
	stream, err := open(ctx)
	if err != nil {
		cancel()
		failure := fromStatus(err, nil, address)
		failure.NothingWritten = true // no request was sent
		return nil, failure
	}
	return &lockstep[Request, Response]{address, stream, cancel}, nil
}

// ask ends the stream where no answer comes in time: a node that hangs answers nothing and closes nothing.
func (l *lockstep[Request, Response]) ask(ctx context.Context, request *Request) (*Response, *Error) {
	overdue := time.AfterFunc(requestTimeout+time.Second, l.cancel)
	defer overdue.Stop()
	defer context.AfterFunc(ctx, l.cancel)()
	if err := l.stream.Send(request); err != nil {
		_, err = l.stream.Recv() // Send says only EOF; Recv has the status
		return nil, streamError(err, l.stream, l.address)
	}
	answer, err := l.stream.Recv()
	if err != nil {
		return nil, streamError(err, l.stream, l.address)
	}
	return answer, nil
}
