OPTIONS = @options@
@begin networks@
build/@stem@.o: CFLAGS += @defines@
@end networks@
SYMBOLS = @symbols@
