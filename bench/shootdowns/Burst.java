// SPDX-License-Identifier: Apache-2.0 OR MIT
import java.util.ArrayList;

/**
 * Threads that make 32 MB of garbage and sleep for 20 ms, in turn: memory that a collector may give
 * back to the kernel. {@code javac -d out bench/shootdowns/Burst.java}, then
 * {@code java OPTIONS -cp out Burst SECONDS THREADS}
 */
public class Burst {
    private static final int ARRAYS = 4000;
    private static final int ARRAY_BYTES = 8192;

    public static void main(String[] args) throws InterruptedException {
        long end = System.nanoTime() + Integer.parseInt(args[0]) * 1_000_000_000L;
        Thread[] threads = new Thread[Integer.parseInt(args[1])];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> burst(end));
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void burst(long end) {
        long rounds = 0;
        try {
            for (; System.nanoTime() < end; rounds++) {
                ArrayList<byte[]> garbage = new ArrayList<>();
                for (int i = 0; i < ARRAYS; i++) {
                    garbage.add(new byte[ARRAY_BYTES]);
                }
                garbage = null;
                Thread.sleep(20);
            }
        } catch (InterruptedException asked) {
            Thread.currentThread().interrupt();
        }
        System.out.println(rounds + " rounds");
    }
}
